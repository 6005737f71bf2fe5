package dev.lockwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class LockTest {
  private Client client;

  @BeforeEach
  void connect() {
    client = Lockwright.connect(Places.memory());
  }

  @AfterEach
  void close() {
    client.close();
  }

  @Test
  void aBlockHoldsTheLock() {
    try (Guard guard = client.lock("x").acquire()) {
      assertTrue(guard.isHeld() && guard.token() > 0);
      assertNull(client.lock("x").tryAcquire());
    }
    assertNotNull(client.lock("x").tryAcquire());
  }

  @Test
  void theLossOfABlockIsAnErrorUnlessItHasOne() {
    assertThrows(LockException.Lost.class, () -> {
      try (Guard guard = client.lock("x").acquire()) {
        assertTrue(client.breakLock("x", guard.token()));
      }
    });
    IllegalStateException own = assertThrows(IllegalStateException.class, () -> {
      try (Guard guard = client.lock("x").acquire()) {
        assertTrue(client.breakLock("x", guard.token()));
        throw new IllegalStateException();
      }
    });
    assertInstanceOf(LockException.Lost.class, own.getSuppressed()[0]);
  }

  @Test
  void aGuardIsReleasedOnce() {
    Guard guard = client.lock("x").acquire();
    assertEquals(ReleaseOutcome.RELEASED, guard.release());
    assertThrows(LockException.NotOwned.class, guard::release);
    guard.close();
    assertFalse(guard.isHeld());
  }

  @Test
  void spansAreDurationsAndTexts() {
    try (Guard guard = client.lock("x").ttl("10s").acquire("1s")) {
      assertTrue(guard.remaining().compareTo(Duration.ofSeconds(10)) < 0);
      guard.extend(Duration.ofMinutes(1));
      assertTrue(guard.remaining().compareTo(Duration.ofSeconds(50)) > 0);
    }
    assertThrows(LockException.InvalidConfig.class, () -> client.lock("x").ttl("ten").acquire());
    assertThrows(LockException.InvalidConfig.class, () -> client.lock("x").acquire(Duration.ofSeconds(-1)));
    assertThrows(LockException.InvalidConfig.class, () -> client.lock(null));
    assertThrows(LockException.InvalidConfig.class, () -> client.lock("a\ud800"));
  }

  @Test
  void whichTextHoldsALoneSurrogateIsSaid() {
    String lone = "a\ud800";
    Map<String, Executable> all = Map.of("lock: the label", client.lock("x").label(lone)::acquire, "lock: the layout",
        client.lock("x").layout(lone)::acquire, "lock: the ttl", client.lock("x").ttl(lone)::acquire, "lock: the label of an election",
        () -> client.election("x").campaign(lone), "acquire: the timeout", () -> client.lock("x").acquire(lone), "connect: the prefix",
        () -> Lockwright.connect(Places.memory(), new ConnectOptions().prefix(lone)));
    all.forEach((what, given) -> {
      String said = assertThrows(LockException.InvalidConfig.class, given).getMessage();
      assertTrue(said.contains(what.replace(" of an election", "") + " holds a lone surrogate"), said);
    });
  }

  @Test
  void whoWaitsForItselfIsTold() {
    try (Guard guard = client.lock("x").acquire()) {
      assertThrows(LockException.Deadlock.class, () -> client.lock("x").acquire());
      assertThrows(LockException.Timeout.class, () -> client.lock("x").acquire("10ms"));
    }
  }

  @Test
  void aFutureCompletesWhenTheLockIsFree() throws Exception {
    Guard first = client.lock("x").acquire();
    CompletableFuture<Guard> second = client.lock("x").acquireAsync();
    assertFalse(second.isDone());
    assertEquals(ReleaseOutcome.RELEASED, first.releaseAsync().get());
    assertEquals(ReleaseOutcome.RELEASED, second.get().releaseAsync().get());
    assertNull(client.lock("x").tryAcquireAsync().thenCompose(guard -> client.lock("x").tryAcquireAsync()).get());
    CompletableFuture<Guard> late = client.lock("x").acquireAsync(Duration.ofMillis(10));
    assertInstanceOf(LockException.Timeout.class, assertThrows(ExecutionException.class, late::get).getCause());
  }

  @Test
  void cancelLeavesTheQueue() throws Exception {
    Guard first = client.lock("x").acquire();
    CompletableFuture<Guard> second = client.lock("x").acquireAsync();
    CompletableFuture<Guard> third = client.lock("x").acquireAsync();
    Places.awaitWaiters(client, 2);
    assertTrue(second.cancel(true));
    assertThrows(CancellationException.class, second::get);
    first.release();
    third.get().release();
    assertEquals(1, client.metrics().cancelled());
  }

  @Test
  void whoeverCompletesAFutureLeavesTheQueue() throws Exception {
    Map<String, Consumer<CompletableFuture<Guard>>> ways = Map.of("orTimeout", future -> future.orTimeout(1, TimeUnit.MILLISECONDS),
        "completeOnTimeout", future -> future.completeOnTimeout(null, 1, TimeUnit.MILLISECONDS), "complete", future -> future.complete(null),
        "completeExceptionally", future -> future.completeExceptionally(new IllegalStateException()),
        "completeAsync", future -> future.completeAsync(() -> null), "obtrudeValue", future -> future.obtrudeValue(null),
        "obtrudeException", future -> future.obtrudeException(new IllegalStateException()));
    for (Map.Entry<String, Consumer<CompletableFuture<Guard>>> way : ways.entrySet()) {
      Guard first = client.lock("x").acquire();
      CompletableFuture<Guard> second = client.lock("x").acquireAsync();
      Places.awaitWaiters(client, 1);
      way.getValue().accept(second);
      second.handle((guard, error) -> guard).get(20, TimeUnit.SECONDS);
      for (long began = System.nanoTime(); client.metrics().waiting() > 0; LockSupport.parkNanos(1_000_000)) {
        assertTrue(System.nanoTime() - began < 20_000_000_000L, way.getKey() + " stays in the queue");
      }
      first.release();
      assertEquals(ReleaseOutcome.RELEASED, client.lock("x").acquire("5s").release(), way.getKey());
    }
  }

  @Test
  void aFutureThatTimesOutAfterTheGrantGivesItBack() throws Exception {
    BlockingQueue<Runnable> later = new LinkedBlockingQueue<>();
    try (Client own = Lockwright.connect(Places.shared(), new ConnectOptions().executor(later::add))) {
      CompletableFuture<Guard> acquired = own.lock("x").acquireAsync();
      Runnable completes = later.take();
      acquired.orTimeout(1, TimeUnit.MILLISECONDS);
      assertInstanceOf(TimeoutException.class, assertThrows(ExecutionException.class, acquired::get).getCause());
      completes.run();
      own.lock("x").acquire("20s").release();
    }
  }

  @Test
  void anExportThatIsCancelledGivesTheLockBack() throws Exception {
    BlockingQueue<Runnable> later = new LinkedBlockingQueue<>();
    try (Client own = Lockwright.connect(Places.shared(), new ConnectOptions().executor(later::add))) {
      CompletableFuture<String> exported = own.lock("x").acquire().exportAsync(Duration.ofHours(1));
      Runnable completes = later.take();
      assertTrue(exported.cancel(true));
      completes.run();
      // What takes it back completes there, too.
      Runnable takesBack = later.poll(20, TimeUnit.SECONDS);
      assertNotNull(takesBack);
      takesBack.run();
      own.lock("x").acquire("20s").release();
    }
  }

  @Test
  void aTryThatIsCancelledAfterTheGrantGivesItBack() throws Exception {
    BlockingQueue<Runnable> later = new LinkedBlockingQueue<>();
    try (Client own = Lockwright.connect(Places.shared(), new ConnectOptions().executor(later::add))) {
      CompletableFuture<Guard> tried = own.lock("x").tryAcquireAsync();
      Runnable completes = later.take();
      assertTrue(tried.cancel(true));
      completes.run();
      own.lock("x").acquire("20s").release();
    }
  }

  @Test
  void aContinuationRunsWhereTheClientSays() throws Exception {
    List<Thread> ran = new java.util.concurrent.CopyOnWriteArrayList<>();
    ConnectOptions options = new ConnectOptions().executor(work -> {
      ran.add(Thread.currentThread());
      work.run();
    });
    try (Client own = Lockwright.connect(Places.memory(), options)) {
      Guard first = own.lock("x").acquire();
      CompletableFuture<Guard> second = own.lock("x").acquireAsync();
      first.release();
      second.get().release();
    }
    assertFalse(ran.isEmpty());
  }

  @Test
  void aFutureCompletesThoughItsExecutorWasShutDown() throws Exception {
    ExecutorService ended = Executors.newSingleThreadExecutor();
    ended.shutdown();
    try (Client own = Lockwright.connect(Places.memory(), new ConnectOptions().executor(ended))) {
      Guard first = own.lock("x").acquire();
      CompletableFuture<Guard> second = own.lock("x").acquireAsync();
      CompletableFuture<LossReason> lost = first.lost();
      own.breakLock("x", first.token());
      assertEquals(LossReason.BROKEN, lost.get(20, TimeUnit.SECONDS));
      second.get(20, TimeUnit.SECONDS).release();
    }
  }

  @Test
  void anExecutorThatFailsIsDoneWithout() throws Exception {
    ConnectOptions failing = new ConnectOptions().executor(work -> {
      throw new IllegalStateException("it is not ready");
    });
    ConnectOptions after = new ConnectOptions().executor(work -> {
      work.run();
      throw new AssertionError("it was done already");
    });
    for (ConnectOptions options : List.of(failing, after)) {
      try (Client own = Lockwright.connect(Places.memory(), options)) {
        Guard first = own.lock("x").acquire();
        CompletableFuture<Guard> second = own.lock("x").acquireAsync();
        CompletableFuture<LossReason> lost = first.lost();
        own.breakLock("x", first.token());
        assertEquals(LossReason.BROKEN, lost.get(20, TimeUnit.SECONDS));
        assertTrue(second.get(20, TimeUnit.SECONDS).isHeld());
        assertEquals(List.of("x"), client.lock("x").acquireAsync().thenApply(guard -> client.list()).get(20, TimeUnit.SECONDS));
        client.lock("x").breakLock(client.inspect("x").holder().firstToken());
      }
    }
  }

  @Test
  void aLossThatWasBeforeIsToldAsWell() throws Exception {
    Guard guard = client.lock("x").acquire();
    client.breakLock("x", guard.token());
    while (guard.whyLost() == null) {
      Thread.onSpinWait();
    }
    assertEquals(LossReason.BROKEN, guard.lost().get(20, TimeUnit.SECONDS));
  }

  @Test
  void aGuardThatWasGivenBackIsOfNoUse() {
    Guard guard = client.lock("x").acquire();
    guard.release();
    Guard next = client.lock("x").acquire();
    assertFalse(guard.isHeld());
    assertEquals(Duration.ZERO, guard.remaining());
    assertNull(guard.whyLost());
    assertThrows(CancellationException.class, () -> guard.lost().get());
    LockException over = assertThrows(LockException.NotOwned.class, () -> guard.extend("10s"));
    assertTrue(over.getMessage().contains("\"x\"") && over.getMessage().contains(client.address()), over.getMessage());
    assertInstanceOf(LockException.NotOwned.class, assertThrows(ExecutionException.class, () -> guard.extendAsync(Duration.ofSeconds(9)).get()).getCause());
    assertThrows(LockException.NotOwned.class, () -> guard.export(Duration.ofSeconds(1)));
    assertThrows(LockException.NotOwned.class, () -> guard.holdAtLeastFor(Duration.ofSeconds(1)));
    assertTrue(next.isHeld());
  }

  @Test
  void aLossIsTold() throws Exception {
    Guard guard = client.lock("x").acquire();
    AtomicReference<LossReason> called = new AtomicReference<>();
    CompletableFuture<LossReason> lost = guard.lost();
    guard.onLost(called::set);
    guard.onLost(why -> {
      throw new IllegalStateException("the log shows this");
    });
    client.breakLock("x", guard.token());
    assertEquals(LossReason.BROKEN, lost.get());
    while (called.get() == null) {
      Thread.onSpinWait();
    }
    assertEquals(LossReason.BROKEN, guard.whyLost());
    assertEquals(LossReason.BROKEN, guard.lost().get());
    CompletableFuture<LossReason> never = client.lock("y").acquire().lost();
    System.gc();
    assertFalse(never.isCompletedExceptionally() && !never.isCancelled());
    Guard released = client.lock("z").acquire();
    CompletableFuture<LossReason> over = released.lost();
    released.release();
    assertThrows(CancellationException.class, over::get);
  }

  @Test
  void whateverACallbackThrowsIsLoggedAndNobodyElses() throws Exception {
    AtomicReference<Throwable> thrown = new AtomicReference<>();
    ConnectOptions options = new ConnectOptions().executor(work -> {
      try {
        work.run();
      } catch (Throwable error) {
        thrown.set(error);
      }
    });
    try (Client own = Lockwright.connect(Places.memory(), options)) {
      Guard guard = own.lock("x").acquire();
      CompletableFuture<LossReason> told = new CompletableFuture<>();
      guard.onLost(why -> {
        throw LockTest.<RuntimeException>sneaky(new java.io.IOException("the log shows this"));
      });
      guard.onLost(told::complete);
      own.breakLock("x", guard.token());
      assertEquals(LossReason.BROKEN, told.get(20, TimeUnit.SECONDS));
      assertNull(thrown.get());
    }
  }

  @Test
  void whatOneMakesOfTheFutureOfALossConcernsNobodyElse() throws Exception {
    Guard guard = client.lock("x").acquire();
    CompletableFuture<LossReason> before = guard.lost();
    assertThrows(ExecutionException.class, () -> guard.lost().orTimeout(1, TimeUnit.MILLISECONDS).get());
    guard.lost().complete(LossReason.EXPIRED);
    guard.lost().cancel(false);
    CompletableFuture<LossReason> after = guard.lost();
    assertFalse(before.isDone() || after.isDone());
    client.breakLock("x", guard.token());
    assertEquals(List.of(LossReason.BROKEN, LossReason.BROKEN), List.of(before.get(), after.get()));
  }

  @Test
  void whyItWasLostIsKnownAfterTheRelease() {
    Guard guard = client.lock("x").acquire();
    client.breakLock("x", guard.token());
    guard.release();
    assertEquals(LossReason.BROKEN, guard.whyLost());
    MultiGuard several = client.multiLock("a", "b").acquire();
    client.breakLock("b", several.tokens().get("b"));
    several.release();
    assertEquals(LossReason.BROKEN, several.whyLost());
  }

  @Test
  void whatIsReleasedNeedsNoCollector() {
    Reply.Grant one = granted();
    new Guard(client, one).release();
    Reply.Grant awaited = granted();
    new Guard(client, awaited).releaseAsync().join();
    Reply.Grant several = granted();
    new MultiGuard(client, List.of(new Guard(client, several))).close();
    for (Reply.Grant grant : List.of(one, awaited, several)) {
      assertNull(new Request(Verb.STATE, grant.guard()).call(), "the native library keeps what was released");
    }
  }

  private Reply.Grant granted() {
    return (Reply.Grant) client.lock("x").handle().call("acquire", Owner.ofThread()).limit(null).get();
  }

  @Test
  void aGuardThatIsCollectedIsNotRenewed() {
    client.lock("x").ttl("1s").acquire();
    Guard next = null;
    long began = System.nanoTime();
    while (next == null) {
      assertTrue(System.nanoTime() - began < 20_000_000_000L, "it is renewed");
      System.gc();
      try {
        next = client.lock("x").acquireAsync(Duration.ofMillis(50)).join();
      } catch (java.util.concurrent.CompletionException taken) {
        assertInstanceOf(LockException.Timeout.class, taken.getCause());
      }
    }
    assertEquals(1L, client.metrics().lost().get(LossReason.ABANDONED));
    next.release();
  }

  @Test
  void anOwnerMayComeAgain() throws Exception {
    Owner owner = new Owner();
    Lock lock = client.lock("x").ownedBy(owner);
    Guard outer = lock.acquireAsync().get();
    Guard inner = lock.acquireAsync().get();
    assertEquals(2, inner.depth());
    assertNull(client.lock("x").ownedBy(new Owner()).tryAcquireAsync().get());
    assertEquals(ReleaseOutcome.KEPT, inner.release());
    assertEquals(ReleaseOutcome.RELEASED, outer.release());
    assertThrows(LockException.InvalidConfig.class, () -> client.lock("x").reentrant(true).acquireAsync());
  }

  @Test
  void aLockMovesByItsSecret() throws Exception {
    Guard guard = client.lock("x").acquire();
    String secret = guard.export(Duration.ofSeconds(10));
    assertThrows(LockException.NotOwned.class, guard::release);
    Guard resumed = client.resume(secret);
    assertTrue(resumed.token() > guard.token());
    String again = resumed.exportAsync(Duration.ofSeconds(10)).get();
    assertTrue(client.exportedLock(again).ttl("1m").resume(again).remaining().toSeconds() > 50);
  }

  @Test
  void aClosedClientSaysSo() {
    Guard guard = client.lock("x").acquire();
    CompletableFuture<Guard> waits = client.lock("x").acquireAsync();
    client.close();
    client.close();
    assertEquals(LossReason.CLOSED, guard.whyLost());
    assertInstanceOf(LockException.Closed.class, assertThrows(ExecutionException.class, waits::get).getCause());
    assertThrows(LockException.Closed.class, () -> client.lock("x").acquire());
    assertThrows(LockException.Closed.class, () -> client.lock("x").tryAcquire());
    assertThrows(LockException.Closed.class, () -> client.lock("x").acquireAsync().join());
    assertThrows(LockException.Closed.class, () -> client.reentrantLock("x").lock());
    assertThrows(LockException.Closed.class, () -> client.inspect("x"));
    assertThrows(LockException.Closed.class, client::ping);
    assertThrows(LockException.Lost.class, guard::close);
    assertNull(client.closeAsync().join());
  }

  @Test
  void aDrainedClientBeginsNothing() throws Exception {
    Guard guard = client.lock("x").acquire();
    assertEquals(List.of("x"), client.drain(Duration.ofMillis(1)));
    assertThrows(LockException.Closed.class, () -> client.lock("y").acquire());
    CompletableFuture<List<String>> drained = client.drainAsync(Duration.ofSeconds(20));
    guard.release();
    assertEquals(List.of(), drained.get());
  }

  @Test
  void whatThereIsCanBeSeen() throws Exception {
    Guard guard = client.lock("x").label("me").acquire();
    Inspection seen = client.inspect("x");
    assertEquals("me", seen.holder().label());
    assertEquals("java", seen.holder().language());
    assertEquals(seen.name(), client.inspectAsync("x").get().name());
    assertEquals(List.of("x"), client.list());
    assertEquals(List.of("x"), client.listAsync().get());
    assertNotNull(client.ping());
    assertNotNull(client.pingAsync().get());
    assertTrue(client.guarantees().fair() && client.lock("x").guarantees().reentrant());
    client.require(Requirement.FAIR, Requirement.LATCH);
    assertThrows(LockException.Unsupported.class, () -> client.require(Requirement.SHARED));
    assertFalse(client.breakLockAsync("x", guard.token() + 1_000).get());
    assertTrue(client.lock("x").breakLockAsync(guard.token()).get());
    Metrics did = client.metrics();
    assertEquals(did.waitTimes().count(), did.waitTimes().buckets().stream().mapToLong(Histogram.Bucket::count).sum());
    assertEquals(did.waitTimes().count(), did.waitTimes().atMost(did.waitTimes().max()));
    assertTrue(did.waitTimes().quantile(0.5).compareTo(did.waitTimes().max()) <= 0);
    assertEquals(1L, did.lost().get(LossReason.BROKEN));
  }

  @Test
  void credentialsAreAskedFor() {
    List<String> asked = new java.util.concurrent.CopyOnWriteArrayList<>();
    ConnectOptions options = new ConnectOptions().storeTimeout(Duration.ofMillis(300)).credentials(() -> {
      asked.add("");
      throw new IllegalStateException("the vault is sealed");
    });
    String redis = System.getenv("LOCKWRIGHT_TEST_REDIS");
    if (redis != null) {
      try (Client own = Lockwright.connect(redis, options)) {
        LockException failed = assertThrows(LockException.AuthFailed.class, () -> own.lock("x").acquire());
        assertTrue(failed.getMessage().contains("the vault is sealed"), failed.getMessage());
      }
      assertFalse(asked.isEmpty());
    }
    assertFalse(new Credentials("u", "secret").toString().contains("secret"));
  }

  @Test
  void whyASourceHasNoCredentialsIsSaidAtOnce() {
    String redis = System.getenv("LOCKWRIGHT_TEST_REDIS");
    Assumptions.assumeTrue(redis != null);
    Supplier<Credentials> checked = () -> {
      throw LockTest.<RuntimeException>sneaky(new java.io.IOException("the vault is sealed"));
    };
    Map<String, Supplier<Credentials>> sources = Map.of("the vault is sealed", checked, "the user holds a lone surrogate",
        () -> new Credentials("u\ud800", "secret"), "the password holds a lone surrogate", () -> new Credentials("u", "\ud800secret"));
    sources.forEach((why, source) -> {
      ConnectOptions options = new ConnectOptions().storeTimeout(Duration.ofMillis(300)).credentials(source);
      try (Client own = Lockwright.connect(redis, options)) {
        String said = assertThrows(LockException.AuthFailed.class, () -> own.lock("x").acquire()).getMessage();
        assertTrue(said.contains(why) && !said.contains("secret"), said);
      }
    });
  }

  @SuppressWarnings("unchecked")
  private static <T extends Throwable> T sneaky(Throwable checked) throws T {
    throw (T) checked;
  }

  @Test
  void theKitKnowsTokens() {
    Kit.Fence fence = new Kit.Fence();
    fence.admit(new Kit.Token(0, 5));
    fence.admit(new Kit.Token(0, 5));
    assertThrows(Kit.Stale.class, () -> fence.admit(new Kit.Token(0, 4)));
    assertEquals(new Kit.Token(0, 5), fence.highest());
    Kit.Token token = new Kit.Token(1, 7);
    assertEquals(token, Kit.readHeader(Kit.headerValue(token)));
    assertNull(Kit.readHeader("no token"));
    assertTrue(Kit.sqlCondition("fence").contains("fence"));
    assertEquals(List.of("orders:42/", "orders:420"), Kit.keyRange("orders:42"));
    assertEquals(5584380421345094869L, Kit.advisoryKey("orders"));
    for (String wrong : List.of("", "a\0b", "a\nb", "x".repeat(1537))) {
      assertThrows(LockException.InvalidConfig.class, () -> Kit.keyRange(wrong));
      assertThrows(LockException.InvalidConfig.class, () -> Kit.advisoryKey(wrong));
      assertThrows(LockException.InvalidConfig.class, () -> Kit.sqlCondition(wrong));
      assertThrows(LockException.InvalidConfig.class, () -> Kit.sqlCondition("fence", wrong));
    }
    assertFalse(Kit.HEADER.isEmpty() || Kit.SET_SCRIPT.isEmpty());
  }
}
