package dev.lockwright;

import java.lang.ref.WeakReference;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * The mail of the native library, and who waits for what it brings. A {@link Taker} takes it while a client is open or anybody waits.
 */
final class Agenda {
  /** Jobs by number: the {@link Job} that waits for one, or what came of it before anybody said so. */
  private static final ConcurrentMap<Integer, Object> JOBS = new ConcurrentHashMap<>();

  /** Threads that are parked, by the number of what they wait for. */
  static final ConcurrentMap<Long, Parked> PARKED = new ConcurrentHashMap<>();

  /** Guards whose loss is waited for. A guard that the program dropped is told nothing. */
  static final ConcurrentMap<Long, WeakReference<Losses>> LOSSES = new ConcurrentHashMap<>();

  /** Clients that have a source of user and password. */
  static final ConcurrentMap<Long, Credentials.Source> SOURCES = new ConcurrentHashMap<>();

  private static final Object NOTHING = new Object();

  private static int open;
  private static volatile boolean runs;

  private Agenda() {}

  /** A client was opened. */
  static synchronized void enter() {
    open++;
    start();
  }

  private static synchronized void start() {
    if (!runs) {
      runs = true;
      new Taker().start();
    }
  }

  /** A client was closed, or collected. */
  static synchronized void leave() {
    open--;
    nudge();
  }

  /** Nobody waits under that number any more. */
  static void left(long number) {
    PARKED.remove(number);
    nudgeIfClosed();
  }

  /** Whoever was the last to wait lets the thread go home. */
  private static synchronized void nudgeIfClosed() {
    if (open == 0) {
      nudge();
    }
  }

  private static void nudge() {
    new Request(Verb.NUDGE).call();
  }

  /** Whether nobody needs to take the mail. */
  static synchronized boolean goesHome() {
    // Before it looks whether anybody waits: whoever begins to wait afterwards sees this, and starts another.
    runs = false;
    boolean over = open == 0 && JOBS.isEmpty() && PARKED.isEmpty();
    runs = !over;
    return over;
  }

  /** Somebody began to wait, maybe at a client that is closed. */
  static void awaited() {
    if (!runs) {
      start();
    }
  }

  /** Has {@code job} told what comes of the job of that number. */
  static void register(int number, Job<?> job) {
    Object came = JOBS.putIfAbsent(number, job);
    if (came != null) {
      JOBS.remove(number);
      job.settle(came == NOTHING ? null : came);
    } else {
      awaited();
    }
  }

  /** Gives up a job that has not ended yet. */
  static boolean forget(int number) {
    boolean forgotten = (boolean) new Request(Verb.FORGET_JOB).count(number).call();
    if (forgotten) {
      JOBS.remove(number);
      nudgeIfClosed();
    }
    return forgotten;
  }

  /** Waits for mail, and tells whom it is for. One thread at a time may. */
  static void take() {
    Reply mail = new Request(Verb.TAKE).take();
    for (int left = mail.count(); left > 0; left--) {
      read(mail);
    }
  }

  private static void read(Reply mail) {
    switch (mail.octet()) {
      case 0 -> ended(mail.count(), mail.outcome());
      case 1 -> rang(mail.number());
      case 2 -> lost(mail.number(), LossReason.of(mail.text()));
      case 3 -> asked(mail.number(), mail.count());
      case 4 -> Log.tell((Reply.Fields) mail.value());
      case 5 -> wanted(mail.number());
      default -> throw new IllegalStateException("the native library is of another version");
    }
  }

  private static void ended(int number, Object outcome) {
    Object waits = JOBS.putIfAbsent(number, outcome == null ? NOTHING : outcome);
    if (waits != null) {
      JOBS.remove(number);
      ((Job<?>) waits).settle(outcome);
    }
  }

  private static void rang(long number) {
    Parked parked = PARKED.get(number);
    if (parked != null) {
      parked.ring();
    }
  }

  private static void lost(long guard, LossReason why) {
    WeakReference<Losses> losses = LOSSES.remove(guard);
    Losses told = losses == null ? null : losses.get();
    if (told != null) {
      told.tell(why);
    }
  }

  private static void wanted(long guard) {
    WeakReference<Losses> losses = LOSSES.get(guard);
    Losses told = losses == null ? null : losses.get();
    if (told != null) {
      told.asked();
    }
  }

  private static void asked(long whom, int question) {
    Credentials.Source source = SOURCES.get(whom);
    if (source == null) {
      Credentials.refuse(question, "the client was closed");
    } else {
      source.ask(question);
    }
  }
}
