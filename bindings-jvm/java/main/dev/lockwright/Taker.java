package dev.lockwright;

import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * The thread that takes the mail of the native library, and another that watches it from the first completion on.
 *
 * <p>Futures are completed by the thread that has their results, without a change of threads. A completion of the program's that does not come
 * back soon must not hold up the mail: the watching thread then takes it instead, and for a while the common pool does the completing.
 */
final class Taker extends Thread {
  /** Completes in the thread that takes the mail; in the common pool what ends elsewhere, and while the program takes its time. */
  static final Executor EXECUTOR = Taker::execute;

  /** Between two looks of the watching thread, in nanoseconds. */
  private static final long ROUND = 1_000_000;

  /** After how many looks at the same completion the thread is replaced: one may come of a pause that is the JVM's. */
  private static final int PATIENCE = 2;

  /** After how many looks without any completion the watching thread sleeps. */
  private static final int QUIET = 100;

  /** How long all completions of one mail may take before the rest is left to the common pool, in nanoseconds. */
  private static final long TOGETHER = 5_000_000;

  /** For how long the common pool completes after that, or after one that took too long, in nanoseconds. */
  private static final long POOLED = 1_000_000_000;

  /** Turns of a thread that takes no mail any more: another does, or nobody needs to. */
  private static final long REPLACED = -1;
  private static final long HOME = -2;

  private static volatile long pooledUntil = System.nanoTime();

  /** Whom it watches, before it takes the mail itself. */
  private Taker watched;

  /** What is to be completed. After this thread, only whoever replaced it looks there. */
  private final Queue<Runnable> due = new ArrayDeque<>();

  /** Odd while it completes something. Whoever replaces the thread does so at an odd one. */
  private final AtomicLong turn = new AtomicLong();

  private boolean reads;
  private Taker watcher;
  private volatile boolean sleeps;

  /** The first one. */
  Taker() {
    this(null);
  }

  private Taker(Taker watched) {
    // Without what the thread that happens to come first has: neither a class loader nor thread locals are kept from collection.
    super(null, null, "lockwright", 0, false);
    this.watched = watched;
    setDaemon(true);
    setContextClassLoader(ClassLoader.getSystemClassLoader());
  }

  private static void execute(Runnable completion) {
    if (currentThread() instanceof Taker taker && taker.mayComplete()) {
      taker.due.add(completion);
    } else {
      ForkJoinPool.commonPool().execute(completion);
    }
  }

  /** Does what may run code of the program's: in this thread, or where that takes the mail, as a completion. */
  static void aside(Runnable foreign) {
    if (currentThread() instanceof Taker taker && taker.reads) {
      execute(foreign);
    } else {
      foreign.run();
    }
  }

  private boolean mayComplete() {
    return reads && pooledUntil - System.nanoTime() <= 0 && isWatched();
  }

  private boolean isWatched() {
    if (watcher == null) {
      Taker next = new Taker(this);
      try {
        next.start();
      } catch (OutOfMemoryError refused) {
        // The operating system gives no more threads.
        return false;
      }
      watcher = next;
    }
    return true;
  }

  @Override
  public void run() {
    if (watched != null) {
      if (!replaces(watched)) {
        return;
      }
      watched = null;
      // Now, and not at its first completion: so there are as many threads as before.
      isWatched();
    }
    do {
      reads = true;
      take();
      reads = false;
      if (!complete()) {
        return;
      }
    } while (!Agenda.goesHome());
    turn.set(HOME);
    LockSupport.unpark(watcher);
  }

  private void take() {
    try {
      Agenda.take();
    } catch (Throwable error) {
      // Whatever it is, such as a lack of memory: nobody else would take the mail.
      report(error);
    }
  }

  private void report(Throwable error) {
    try {
      getUncaughtExceptionHandler().uncaughtException(this, error);
    } catch (Throwable ignored) {
      // As the JVM does it: the handler is the program's.
    }
  }

  /** Whether it is still this thread that takes the mail. */
  private boolean complete() {
    long began = System.nanoTime();
    for (Runnable completion = due.poll(); completion != null; completion = due.poll()) {
      long completing = turn.incrementAndGet();
      if (watcher.sleeps) {
        LockSupport.unpark(watcher);
      }
      try {
        completion.run();
      } catch (Throwable error) {
        report(error);
      }
      // It was meant for what the program did here.
      interrupted();
      if (!turn.compareAndSet(completing, completing + 1)) {
        return false;
      }
      if (!due.isEmpty() && System.nanoTime() - began > TOGETHER) {
        leaveToPool();
      }
    }
    return true;
  }

  /** Waits until this thread is to take the mail instead of {@code taker}; false once nobody needs to. */
  private boolean replaces(Taker taker) {
    long seen = taker.turn.get();
    for (int looks = 0; seen != HOME; looks++) {
      LockSupport.parkNanos(this, ROUND);
      long now = taker.turn.get();
      if (now != seen) {
        seen = now;
        looks = 0;
      } else if (isCompleting(now)) {
        if (looks >= PATIENCE && taker.turn.compareAndSet(now, REPLACED)) {
          taker.leaveToPool();
          return true;
        }
      } else if (looks >= QUIET) {
        sleepWhile(taker.turn, now);
      }
    }
    return false;
  }

  private static boolean isCompleting(long turn) {
    return (turn & 1) != 0;
  }

  private void leaveToPool() {
    pooledUntil = System.nanoTime() + POOLED;
    due.forEach(ForkJoinPool.commonPool()::execute);
    due.clear();
  }

  private void sleepWhile(AtomicLong turn, long same) {
    sleeps = true;
    while (turn.get() == same) {
      LockSupport.park(this);
    }
    sleeps = false;
  }
}
