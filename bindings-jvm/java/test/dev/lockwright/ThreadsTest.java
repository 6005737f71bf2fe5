package dev.lockwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
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

  /** The thread that takes the mail goes home with the last client, and whoever asks a closed one still hears that it is. */
  @Test
  void whatIsAskedAsTheLastClientClosesEnds() throws Exception {
    for (int i = 0; i < 300; i++) {
      Client client = Lockwright.connect(Places.memory());
      dev.lockwright.Lock lock = client.lock("x");
      FutureTask<Void> closing = new FutureTask<>(client::close, null);
      List<CompletableFuture<?>> asked = new ArrayList<>();
      new Thread(closing).start();
      for (int late = 0; late < 3; late += closing.isDone() ? 1 : 0) {
        try {
          asked.add(lock.tryAcquireAsync().exceptionally(closed -> null));
        } catch (LockException.Closed closed) {
          // Nothing was begun.
        }
      }
      CompletableFuture.allOf(asked.toArray(CompletableFuture[]::new)).get(20, TimeUnit.SECONDS);
    }
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
  void whatAThreadHoldsIsNoLockOfAnotherKind() {
    try (Client client = Lockwright.connect(Places.memory())) {
      for (Lock part : List.of(client.readWriteLock("x").readLock(), client.readWriteLock("x").writeLock())) {
        part.lock();
        for (String name : List.of("x", "read:x", "write:x")) {
          assertFalse(client.reentrantLock(name).isHeldByCurrentThread());
          assertThrows(IllegalMonitorStateException.class, client.reentrantLock(name)::unlock);
        }
        part.unlock();
      }
    }
  }

  @Test
  void aTimeLimitIsNoneTooLongAndNoneTooShort() throws Exception {
    try (Client client = Lockwright.connect(Places.memory())) {
      Semaphore one = client.semaphore("one", 1);
      List<Lock> locks = List.of(client.reentrantLock("x"), client.readWriteLock("y").readLock(), client.readWriteLock("z").writeLock());
      for (long time : new long[] {Long.MAX_VALUE, 10_000_000, 0, Long.MIN_VALUE}) {
        for (Lock lock : locks) {
          assertTrue(lock.tryLock(time, TimeUnit.DAYS));
          lock.unlock();
        }
        assertTrue(one.tryAcquire(time, TimeUnit.DAYS));
        one.release();
      }
      ReentrantLock lock = client.reentrantLock("x");
      lock.lock();
      assertFalse(Places.each(1, () -> lock.tryLock(-1, TimeUnit.DAYS) || lock.tryLock(Duration.ofDays(-1))).get(0));
      assertTrue(lock.tryLock(Duration.ofSeconds(Long.MAX_VALUE)));
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

  @Test
  void whoCameInterruptedDoesNotTakeEvenAFreeLock() {
    try (Client client = Lockwright.connect(Places.memory())) {
      ReentrantLock lock = client.reentrantLock("x");
      Semaphore two = client.semaphore("y", 2);
      List<Executable> all = List.of(lock::lockInterruptibly, () -> lock.tryLock(1, TimeUnit.SECONDS), two::acquire,
          () -> two.tryAcquire(1, TimeUnit.SECONDS));
      for (Executable one : all) {
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, one);
        assertFalse(Thread.interrupted());
      }
    }
  }

  @Test
  void aWaitThatNothingInterruptsGoesOn() throws Exception {
    try (Client client = Lockwright.connect(Places.memory())) {
      Guard guard = client.lock("x").acquire();
      Thread waits = new Thread(() -> {
        client.reentrantLock("x").lock();
        counter = Thread.interrupted() ? 1 : 2;
        client.reentrantLock("x").unlock();
      });
      waits.start();
      Places.awaitWaiters(client, 1);
      waits.interrupt();
      // Until it has heard of it.
      while (waits.isInterrupted() && waits.isAlive()) {
        Thread.onSpinWait();
      }
      guard.release();
      waits.join();
      assertEquals(1, counter);
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
        var started = new CountDownLatch(4);
        List<Future<?>> tasks = new ArrayList<>();
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
      nobodyIsLeft(client);
    }
  }

  /** Of what waits as a job, as all of a virtual thread does: the grant is in the mail, which nobody has brought yet. */
  @Test
  void anInterruptThatComesAfterTheGrantIsTooLate() throws Exception {
    try (Client client = Lockwright.connect(Places.memory())) {
      Guard first = client.lock("y").acquire();
      Striped one = client.striped("x", 1);
      Segment held = one.any();
      FutureTask<Boolean> waits = new FutureTask<>(() -> {
        try (Segment got = one.any()) {
          return Thread.interrupted() && got.guard().isHeld();
        }
      });
      Thread thread = new Thread(waits);
      thread.start();
      CompletableFuture<Guard> second = client.lock("y").acquireAsync();
      Places.awaitWaiters(client, 2);
      // The thread that brings the mail needs it before it brings more.
      synchronized (Agenda.class) {
        first.release();
        second.get(20, TimeUnit.SECONDS);
        held.release();
        // Whoever begins something finds what ended.
        client.inspectAsync("z");
        assertEquals(2, client.metrics().held());
        thread.interrupt();
        while (thread.isInterrupted() && thread.isAlive()) {
          Thread.onSpinWait();
        }
      }
      assertTrue(waits.get(20, TimeUnit.SECONDS));
      second.get().release();
    }
  }

  private static ExecutorService virtualThreads() throws ReflectiveOperationException {
    return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
  }

  @Test
  void tenThousandVirtualThreadsWait() throws Exception {
    Assumptions.assumeTrue(Runtime.version().feature() >= 21);
    try (Client client = Lockwright.connect(Places.memory()); Carriers carriers = new Carriers()) {
      ReentrantLock lock = client.reentrantLock("x");
      lock.lock();
      ExecutorService pool = virtualThreads();
      ExecutorService aside = Executors.newSingleThreadExecutor();
      var done = aside.submit(() -> Places.each(10_000, pool, () -> {
        lock.lock();
        counter = counter + 1;
        lock.unlock();
        return null;
      }));
      Places.awaitWaiters(client, 10_000);
      carriers.awaitIdle();
      lock.unlock();
      done.get();
      aside.shutdown();
      assertEquals(10_000, counter);
    }
  }

  @Test
  void anInterruptIsHeardWhileTheStoreIsSilent() throws Exception {
    String redis = System.getenv("LOCKWRIGHT_TEST_REDIS");
    Assumptions.assumeTrue(redis != null);
    ConnectOptions patient = new ConnectOptions().prefix(UUID.randomUUID() + ":").responseTimeout(Duration.ofMillis(200))
        .connectTimeout(Duration.ofSeconds(60)).storeTimeout(Duration.ofSeconds(60));
    try (Silent way = new Silent(redis); Client client = Lockwright.connect(way.address(), patient)) {
      Latch latch = client.latch("l", 1);
      client.lock("x").acquire().release();
      way.fallSilent();
      // From now on it is known not to answer.
      assertThrows(LockException.class, () -> client.lock("x").acquire("400ms"));
      List<Executable> all = List.of(() -> client.reentrantLock("x").lockInterruptibly(), () -> client.semaphore("s", 2).acquire(),
          () -> client.reentrantLock("y").tryLock(60, TimeUnit.SECONDS), () -> client.multiLock("a", "b").acquire(), latch::await,
          () -> client.striped("t", 2).any());
      long began = System.nanoTime();
      for (Executable one : all) {
        AtomicReference<Throwable> thrown = new AtomicReference<>();
        Thread waits = new Thread(() -> thrown.set(assertThrows(Throwable.class, one)));
        waits.start();
        while (waits.getState() == Thread.State.NEW || waits.getState() == Thread.State.RUNNABLE) {
          LockSupport.parkNanos(1_000_000);
        }
        waits.interrupt();
        waits.join();
        assertTrue(thrown.get() instanceof InterruptedException || thrown.get() instanceof LockException.Cancelled, thrown::toString);
      }
      assertTrue(System.nanoTime() - began < 10_000_000_000L);
      way.speak();
    }
  }

  /** While a store does not answer: a thread that blocked its carrier would keep all other virtual threads from running. */
  @Test
  void aVirtualThreadDoesNotBlockItsCarrierWhileTheStoreIsSilent() throws Exception {
    String redis = System.getenv("LOCKWRIGHT_TEST_REDIS");
    Assumptions.assumeTrue(redis != null && Runtime.version().feature() >= 21);
    int threads = 8;
    ConnectOptions patient = new ConnectOptions().prefix(UUID.randomUUID() + ":").responseTimeout(Duration.ofSeconds(60))
        .storeTimeout(Duration.ofSeconds(60));
    try (Silent way = new Silent(redis); Client client = Lockwright.connect(way.address(), patient)) {
      ExecutorService pool = virtualThreads();
      List<Guard> held = new ArrayList<>();
      for (int i = 0; i < threads; i++) {
        held.add(client.lock("held " + i).acquire());
      }
      way.fallSilent();
      List<Future<?>> asking = new ArrayList<>();
      for (Guard guard : held) {
        asking.add(pool.submit(guard::release));
        asking.add(pool.submit(() -> client.lock("free " + guard.name()).acquire()));
      }
      // It is behind all of them.
      pool.submit(() -> {}).get(20, TimeUnit.SECONDS);
      assertTrue(asking.stream().noneMatch(Future::isDone));
      way.speak();
      for (Future<?> asked : asking) {
        asked.get();
      }
      pool.shutdown();
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

  /** A continuation runs in whatever thread: what belongs to a thread is not its, a guard is anybody's, and a future's owner is named. */
  @Test
  void aContinuationIsAStrangerToTheThreadsLocks() throws Exception {
    ExecutorService elsewhere = Executors.newSingleThreadExecutor();
    try (Client client = Lockwright.connect(Places.memory())) {
      ReentrantLock lock = client.reentrantLock("x");
      lock.lock();
      CompletableFuture<Void> continues = CompletableFuture.completedFuture(null);
      continues.thenRunAsync(() -> {
        assertFalse(lock.tryLock() || lock.isHeldByCurrentThread());
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
      }, elsewhere).get();
      assertEquals(ReleaseOutcome.RELEASED, continues.thenApplyAsync(none -> lock.guard(), Runnable::run).thenApplyAsync(Guard::release, elsewhere).get());
      Owner order = new Owner();
      dev.lockwright.Lock owned = client.lock("y").ownedBy(order);
      int depth = owned.acquireAsync().thenComposeAsync(outer -> owned.acquireAsync(), elsewhere).thenApply(Guard::depth).get();
      assertEquals(2, depth);
    } finally {
      elsewhere.shutdown();
    }
  }

  @Test
  void aPoolThatIsShutDownLeavesNothing() throws Exception {
    try (Client client = Lockwright.connect(Places.shared())) {
      Guard guard = client.lock("x").acquire();
      ExecutorService pool = Executors.newFixedThreadPool(3);
      pool.submit(() -> client.lock("x").acquire());
      pool.submit(() -> {
        client.reentrantLock("x").lockInterruptibly();
        return null;
      });
      pool.submit(() -> {
        try (Guard outer = client.lock("y").acquire()) {
          client.lock("x").acquire();
        }
      });
      Places.awaitWaiters(client, 3);
      pool.shutdownNow();
      assertTrue(pool.awaitTermination(20, TimeUnit.SECONDS));
      Metrics did = client.metrics();
      assertEquals(List.of(1L, 0L), List.of(did.held(), did.waiting()));
      guard.release();
      for (String name : List.of("x", "y")) {
        Inspection left = client.inspect(name);
        assertTrue(left.holder() == null && left.waiters() == 0, left::toString);
      }
    }
  }

  @Test
  void aThreadThatFailsGivesBackWhatItsBlocksHold() throws Exception {
    try (Client client = Lockwright.connect(Places.memory())) {
      Thread fails = new Thread(() -> {
        try (Guard guard = client.lock("x").acquire()) {
          throw new IllegalStateException("nobody catches it");
        }
      });
      fails.setUncaughtExceptionHandler((thread, error) -> {});
      fails.start();
      fails.join();
      assertEquals(0, client.metrics().held());
    }
  }

  /** However a cancellation falls, nobody holds or waits for anything afterwards. */
  @Test
  void cancellationAtRandomMoments() throws Exception {
    Random random = new Random(7);
    try (Client client = Lockwright.connect(Places.shared())) {
      for (int round = 0; round < 500; round++) {
        List<CompletableFuture<Guard>> four = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
          four.add(client.lock("x").acquireAsync());
        }
        for (CompletableFuture<Guard> one : four) {
          for (int spins = random.nextInt(2_000); spins > 0; spins--) {
            Thread.onSpinWait();
          }
          if (!one.cancel(true)) {
            one.join().release();
          }
        }
      }
      nobodyIsLeft(client);
    }
  }

  /** Nobody holds the lock or waits for it; who gave up may have been granted it just then, and gives it back in the background. */
  private static void nobodyIsLeft(Client client) {
    client.lock("x").acquire("10s").release();
    long began = System.nanoTime();
    while (client.inspect("x").holder() != null) {
      assertTrue(System.nanoTime() - began < 900_000_000, "it was left to its lease");
    }
    Metrics did = client.metrics();
    assertEquals(0, did.held() + did.waiting());
  }

  @Test
  void aThreadThatEndsHoldsNothingForEver() throws Exception {
    try (Client client = Lockwright.connect(Places.memory())) {
      Places.each(1, () -> {
        new ReentrantLock(client.lock("x").ttl("100ms").reentrant(true)).lock();
        return null;
      });
      Guard next = null;
      long began = System.nanoTime();
      while (next == null) {
        assertTrue(System.nanoTime() - began < 20_000_000_000L, "it is renewed");
        System.gc();
        next = client.lock("x").tryAcquire();
      }
      next.release();
    }
  }
}
