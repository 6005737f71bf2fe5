package dev.lockwright;

import static org.junit.jupiter.api.Assertions.assertFalse;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.LockSupport;

/** Where tests keep their locks, and how they have threads work. */
final class Places {
  private Places() {}

  /** A place of this process that nobody else uses. */
  static String memory() {
    return "memory://" + UUID.randomUUID();
  }

  /** The server that the environment names, else memory; under a prefix of its own. */
  static String shared() {
    String redis = System.getenv("LOCKWRIGHT_TEST_REDIS");
    return redis == null ? memory() : redis + (redis.contains("?") ? "&" : "?") + "prefix=jvm-" + UUID.randomUUID() + ":";
  }

  /** What each of so many threads of a pool comes to. */
  static <T> List<T> each(int threads, ExecutorService pool, Callable<T> work) throws Exception {
    List<Future<T>> all = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      all.add(pool.submit(work));
    }
    List<T> done = new ArrayList<>();
    for (Future<T> one : all) {
      done.add(one.get());
    }
    pool.shutdown();
    return done;
  }

  static <T> List<T> each(int threads, Callable<T> work) throws Exception {
    return each(threads, Executors.newFixedThreadPool(threads), work);
  }

  /** Until the collector has a class loader that nobody needs any more. */
  static void awaitCollected(WeakReference<ClassLoader> loader) {
    long began = System.nanoTime();
    while (loader.get() != null) {
      System.gc();
      assertFalse(System.nanoTime() - began > 20_000_000_000L, "a class loader is kept");
    }
  }

  /** Until so many wait in this client. A figure is much to ask for in a tight loop. */
  static void awaitWaiters(Client client, long count) {
    while (client.metrics().waiting() < count) {
      LockSupport.parkNanos(1_000_000);
    }
  }
}
