package dev.lockwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Locks of {@code java.util.concurrent}, by thread. */
class ThreadsTest {
  /** Not atomic in the least: only a lock makes the sum right. */
  private int counter;

  @ParameterizedTest
  @ValueSource(ints = {10, 100, 200})
  void theSumIsExact(int threads) throws Exception {
    String place = Places.shared();
    int each = 400 / threads;
    Places.each(threads, () -> {
      try (Client own = Lockwright.connect(place)) {
        Lock lock = own.reentrantLock("counter");
        for (int i = 0; i < each; i++) {
          lock.lock();
          try {
            counter = nextOf(counter);
          } finally {
            lock.unlock();
          }
        }
      }
      return null;
    });
    assertEquals(threads * each, counter);
  }

  private static int nextOf(int value) {
    Thread.yield();
    return value + 1;
  }

  @Test
  void aThreadMayComeAgain() throws Exception {
    try (Client client = Lockwright.connect(Places.memory())) {
      ReentrantLock lock = client.reentrantLock("x");
      lock.lock();
      client.reentrantLock("x").lockInterruptibly();
      assertTrue(lock.tryLock() && lock.tryLock(1, TimeUnit.SECONDS));
      assertEquals(4, lock.getHoldCount());
      assertEquals(4, lock.guard().depth());
      for (int left = 4; left > 0; left--) {
        assertTrue(lock.isHeldByCurrentThread() && lock.isLocked());
        assertFalse(Places.each(1, lock::tryLock).get(0));
        lock.unlock();
      }
      assertFalse(lock.isHeldByCurrentThread() || lock.isLocked());
    }
  }

  @Test
  void aStrangerMayNotUnlock() throws Exception {
    try (Client client = Lockwright.connect(Places.memory())) {
      Lock lock = client.reentrantLock("x");
      lock.lock();
      Places.each(1, () -> assertThrows(IllegalMonitorStateException.class, lock::unlock));
      lock.unlock();
      assertThrows(IllegalMonitorStateException.class, lock::unlock);
      assertThrows(UnsupportedOperationException.class, lock::newCondition);
    }
  }

  @Test
  void anInterruptIsHeard() throws Exception {
    try (Client client = Lockwright.connect(Places.memory())) {
      Guard guard = client.lock("x").acquire();
      Thread.currentThread().interrupt();
      assertThrows(InterruptedException.class, () -> client.reentrantLock("x").lockInterruptibly());
      Thread.currentThread().interrupt();
      assertThrows(LockException.Cancelled.class, () -> client.lock("x").acquire("10s"));
      assertTrue(Thread.interrupted());
      Thread.currentThread().interrupt();
      assertNull(client.lock("x").tryAcquire());
      guard.release();
      client.reentrantLock("x").lock();
      assertTrue(Thread.interrupted());
    }
  }

  /** However an interrupt falls, the sum is exact, and nobody holds or waits for anything afterwards. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void interruptionAtRandomMoments(boolean virtual) throws Exception {
    Assumptions.assumeTrue(!virtual || Runtime.version().feature() >= 21);
    Random random = new Random(7);
    AtomicInteger counted = new AtomicInteger();
    AtomicInteger interrupted = new AtomicInteger();
    try (Client client = Lockwright.connect(Places.shared())) {
      ExecutorService pool = virtual ? virtualThreads() : Executors.newCachedThreadPool();
      for (int round = 0; round < 500; round++) {
        Thread[] four = new Thread[4];
        var started = new java.util.concurrent.CountDownLatch(4);
        java.util.List<java.util.concurrent.Future<?>> tasks = new java.util.ArrayList<>();
        for (int i = 0; i < 4; i++) {
          int at = i;
          tasks.add(pool.submit(() -> {
            four[at] = Thread.currentThread();
            started.countDown();
            Lock lock = client.reentrantLock("x");
            try {
              lock.lockInterruptibly();
              try {
                counter = nextOf(counter);
                counted.incrementAndGet();
              } finally {
                lock.unlock();
              }
            } catch (InterruptedException interrupt) {
              interrupted.incrementAndGet();
            }
            Thread.interrupted();
          }));
        }
        started.await();
        for (Thread thread : four) {
          for (int spins = random.nextInt(2_000); spins > 0; spins--) {
            Thread.onSpinWait();
          }
          thread.interrupt();
        }
        for (var task : tasks) {
          task.get();
        }
      }
      pool.shutdown();
      assertEquals(counter, counted.get());
      assertEquals(2_000, counted.get() + interrupted.get());
      client.lock("x").acquire("10s").release();
      // Who gave up may have been granted it just then, and gives it back in the background.
      long began = System.nanoTime();
      while (client.inspect("x").holder() != null) {
        assertTrue(System.nanoTime() - began < 900_000_000, "it was left to its lease");
      }
      Metrics did = client.metrics();
      assertEquals(0, did.held() + did.waiting());
    }
  }

  private static ExecutorService virtualThreads() throws ReflectiveOperationException {
    return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
  }

  @Test
  void tenThousandVirtualThreadsWait() throws Exception {
    Assumptions.assumeTrue(Runtime.version().feature() >= 21);
    try (Client client = Lockwright.connect(Places.memory())) {
      ReentrantLock lock = client.reentrantLock("x");
      lock.lock();
      ExecutorService pool = virtualThreads();
      var done = pool.submit(() -> Places.each(10_000, virtualThreads(), () -> {
        lock.lock();
        counter = counter + 1;
        lock.unlock();
        return null;
      }));
      Places.awaitWaiters(client, 10_000);
      // A carrier that were blocked could not run this.
      pool.submit(() -> {}).get();
      lock.unlock();
      done.get();
      pool.shutdown();
      assertEquals(10_000, counter);
    }
  }

  @Test
  void aForkJoinPoolsThreadIsAnOwnerAsAnyOther() throws Exception {
    try (Client client = Lockwright.connect(Places.memory())) {
      ReentrantLock lock = client.reentrantLock("x");
      ForkJoinPool.commonPool().submit(() -> {
        lock.lock();
        lock.lock();
        lock.unlock();
        lock.unlock();
      }).get();
      lock.lock();
      lock.unlock();
    }
  }

  @Test
  void aThreadThatEndsHoldsNothingForEver() throws Exception {
    try (Client client = Lockwright.connect(Places.memory())) {
      Places.each(1, () -> {
        new ReentrantLock(client.lock("x").ttl("100ms").reentrant(true)).lock();
        return null;
      });
      Guard next = null;
      while (next == null) {
        System.gc();
        next = client.lock("x").tryAcquire();
      }
      next.release();
    }
  }
}
