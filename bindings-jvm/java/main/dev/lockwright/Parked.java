package dev.lockwright;

import java.time.Duration;
import java.util.concurrent.locks.LockSupport;

/** A platform thread that waits: its attempt lies in the native library, and it looks at it whenever that rings. */
final class Parked {
  /** How often it looks though nobody rang. */
  private static final long ROUND = 1_000_000_000;

  /** How often it looks once its time is over, until the store has taken back what was asked of it. */
  private static final long PARTING = 5_000_000;

  private final Thread thread = Thread.currentThread();
  private volatile boolean rung;

  private Parked() {}

  void ring() {
    rung = true;
    LockSupport.unpark(thread);
  }

  /**
   * What comes of it.
   *
   * @param mayInterrupt whether an interrupt ends the wait; the interrupt status is set when it came too late to do so
   * @throws InterruptedException when it was given up for that; the status is clear
   */
  static Object await(Reply.Waits waits, boolean mayInterrupt) throws InterruptedException {
    Parked parked = new Parked();
    long number = waits.number();
    Agenda.PARKED.put(number, parked);
    Agenda.awaited();
    boolean interrupted = false;
    try {
      Deadline deadline = Deadline.after(waits.limit());
      while (true) {
        parked.rung = false;
        Object outcome = new Request(Verb.LOOK, number).ask();
        if (!(outcome instanceof Reply.Waits)) {
          return outcome;
        }
        parked.park(deadline);
        if (Thread.interrupted()) {
          interrupted = true;
          if (mayInterrupt) {
            Object last = new Request(Verb.GIVE_UP, number).ask();
            if (last != null) {
              return last;
            }
            interrupted = false;
            throw new InterruptedException();
          }
        }
      }
    } finally {
      Agenda.left(number);
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private void park(Deadline deadline) {
    long left = Math.min(ROUND, Math.max(PARTING, deadline.left()));
    long until = System.nanoTime() + left;
    // An interrupt ends it, too.
    while (!rung && left > 0 && !thread.isInterrupted()) {
      LockSupport.parkNanos(this, left);
      left = until - System.nanoTime();
    }
  }

  /** A moment, or never. */
  record Deadline(long at, boolean comes) {
    static Deadline after(Duration limit) {
      return limit == null ? new Deadline(0, false) : new Deadline(System.nanoTime() + nanos(limit), true);
    }

    /** In nanoseconds. */
    long left() {
      return comes ? at - System.nanoTime() : Long.MAX_VALUE;
    }

    /** Of any span of time, which may be longer than a number of nanoseconds can say. */
    static long nanos(Duration span) {
      return span.getSeconds() < Integer.MAX_VALUE ? span.toNanos() : Integer.MAX_VALUE * 1_000_000_000L;
    }
  }
}
