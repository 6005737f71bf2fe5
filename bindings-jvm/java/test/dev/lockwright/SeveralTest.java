package dev.lockwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** What is made of locks. */
class SeveralTest {
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
  void manyReadOrOneWrites() throws Exception {
    ReadWriteLock both = client.readWriteLock("x");
    Guard reader = both.read().acquire();
    Guard other = both.read().acquireAsync().get();
    assertNull(both.write().tryAcquire());
    assertFalse(reader.tryUpgrade());
    other.release();
    long token = reader.token();
    assertTrue(reader.tryUpgradeAsync().get() && reader.token() > token);
    assertFalse(Places.each(1, both.readLock()::tryLock).get(0));
    reader.downgradeAsync().get();
    reader.release();
    both.writeLock().lock();
    assertFalse(Places.each(1, both.writeLock()::tryLock).get(0));
    both.writeLock().unlock();
    assertThrows(IllegalMonitorStateException.class, both.readLock()::unlock);
  }

  @Test
  void aSemaphoreHasThoseVerbs() throws Exception {
    Semaphore five = client.semaphore("x", 5);
    five.acquire();
    five.acquire(2);
    assertEquals(2, five.availablePermits());
    assertFalse(five.tryAcquire(3) || five.tryAcquire(3, 1, TimeUnit.MILLISECONDS));
    assertTrue(five.tryAcquire() && five.tryAcquire(1, TimeUnit.SECONDS));
    five.release(3);
    assertEquals(3, five.availablePermits());
    assertThrows(LockException.NotOwned.class, () -> five.release(5));
    five.acquireUninterruptibly(3);
    five.release(5);
    five.resize(2);
    assertEquals(2, five.take().inspect().shared() == null ? 2 : five.availablePermits());
    try (Guard two = five.take(2).acquire()) {
      assertFalse(five.tryAcquire());
    }
  }

  @Test
  void permitsAreGivenBackHoweverTheyMakeUpTheNumber() throws Exception {
    Semaphore ten = client.semaphore("x", 10);
    ten.acquire(3);
    ten.acquire(2);
    ten.release(3);
    assertEquals(8, ten.availablePermits());
    ten.acquire(3);
    ten.acquire(4);
    ten.release(5);
    assertEquals(6, ten.availablePermits());
    assertThrows(LockException.NotOwned.class, () -> ten.release(3));
    assertThrows(LockException.NotOwned.class, () -> ten.release(0));
    assertThrows(LockException.NotOwned.class, () -> ten.release(Integer.MAX_VALUE));
    ten.release(4);
  }

  @Test
  void aThreadGivesItsOwnPermitsBackFirst() throws Exception {
    Semaphore ten = client.semaphore("x", 10);
    ten.acquire(2);
    for (int others = 0; others < 2; others++) {
      assertTrue(Places.each(1, ten::tryAcquire).get(0));
    }
    ten.release(2);
    Places.each(2, () -> {
      ten.release();
      return null;
    });
    ten.acquire();
    ten.acquire();
    assertTrue(Places.each(1, () -> ten.tryAcquire(2)).get(0));
    ten.release(2);
    assertThrows(LockException.NotOwned.class, ten::release);
    ten.release(2);
    assertEquals(10, ten.availablePermits());
  }

  @Test
  void aPermitThatWasLostKeepsNoOtherFromBeingGivenBack() throws Exception {
    try (Client shared = Lockwright.connect(Places.shared())) {
      Semaphore three = shared.semaphore("x", 3);
      three.acquire();
      three.acquire(2);
      List<Part> holders = three.inspect().shared().holders();
      assertTrue(three.take().breakLock(holders.get(0).holder().lastToken()));
      while (shared.metrics().lost().get(LossReason.BROKEN) == 0) {
        Thread.onSpinWait();
      }
      assertThrows(LockException.Lost.class, () -> three.release(3));
      assertEquals(3, three.availablePermits());
      assertEquals(0, shared.metrics().held());
    }
  }

  @Test
  void severalAreHeldAllOrNone() throws Exception {
    MultiLock both = client.multiLock("b", "a", "b");
    assertEquals(List.of("a", "b"), both.names());
    try (MultiGuard guard = both.acquire()) {
      assertEquals(Set.of("a", "b"), guard.tokens().keySet());
      assertNull(client.multiLock("b", "c").tryAcquire());
      assertNotNull(client.lock("c").tryAcquire());
      guard.extend(Duration.ofMinutes(1));
      assertTrue(guard.isHeld() && guard.remaining().toSeconds() > 50 && guard.whyLost() == null);
    }
    MultiGuard again = both.acquireAsync().get();
    AtomicReference<LossReason> told = new AtomicReference<>();
    again.onLost(told::set);
    client.breakLock("a", again.tokens().get("a"));
    while (told.get() == null) {
      Thread.onSpinWait();
    }
    assertThrows(LockException.Lost.class, again::close);
    MultiGuard halved = both.acquire();
    halved.guards().get(0).release();
    assertThrows(LockException.NotOwned.class, halved::release);
    client.lock("b").tryAcquire().release();
    halved.close();
    MultiGuard third = both.acquire();
    CompletableFuture<MultiGuard> waits = both.acquireAsync();
    assertEquals(ReleaseOutcome.RELEASED, third.releaseAsync().get());
    waits.get().release();
  }

  @Test
  void aHotLockIsCut() throws Exception {
    Striped two = client.striped("x", 2);
    Segment first = two.any();
    Segment second = two.anyAsync().get();
    assertEquals(Set.of(0, 1), Set.of(first.index(), second.index()));
    assertThrows(LockException.Timeout.class, () -> two.any(Duration.ofMillis(1)));
    first.soldOut();
    second.soldOut();
    assertNull(two.any());
    two.restock();
    try (Segment again = two.any()) {
      assertTrue(again.guard().isHeld());
    }
    try (Guard guard = two.forKey("k").acquire(); Segment other = two.any()) {
      assertEquals(1 - two.indexFor("k"), other.index());
    }
    assertThrows(LockException.InvalidConfig.class, () -> two.segment(2));
  }

  @Test
  void aSegmentWithOptionsOfItsOwnIsTheSameSegment() {
    Striped two = client.striped("x", 2).ttl("1m");
    Lock first = two.segment(0).label("me");
    try (Guard guard = first.acquire()) {
      assertTrue(guard.remaining().toSeconds() > 50);
      assertNull(two.segment(0).tryAcquire());
      assertEquals(first.name(), guard.name());
    }
  }

  @Test
  void aHotLockIsCutOverSeveralStores() throws Exception {
    try (Client other = Lockwright.connect(Places.memory())) {
      Striped four = client.striped("x", 4).ttl("20s").across(other);
      List<Segment> all = List.of(four.any(), four.anyAsync().get(), four.any(), four.any());
      for (Segment segment : all) {
        Client here = segment.index() % 2 == 0 ? client : other;
        assertEquals(segment.guard().token(), here.inspect("x#" + segment.index()).holder().firstToken());
      }
      assertTrue(four.toString().contains(client.address() + ", " + other.address()), four.toString());
      all.forEach(Segment::release);
      try (Guard guard = four.segment(1).acquire()) {
        assertNotNull(other.inspect("x#1").holder());
      }
      assertThrows(LockException.InvalidConfig.class, () -> client.striped("x", 1).across(other).any());
    }
  }

  @Test
  void oneMakesItOnce() throws Exception {
    AtomicReference<Integer> cache = new AtomicReference<>();
    AtomicInteger made = new AtomicInteger();
    Once<Integer> once = client.once("x", () -> cache.get() == null ? null : new Once.Found<>(cache.get(), true), token -> {
      made.incrementAndGet();
      cache.set(42);
      return 42;
    });
    assertEquals(List.of(42, 42, 42, 42), Places.each(4, once::get));
    assertEquals(1, made.get());
    Once<Integer> stale = client.once("x", () -> new Once.Found<>(1, false), token -> 2);
    try (Guard guard = client.lock("x").acquire()) {
      assertEquals(1, stale.get());
    }
    assertEquals(2, stale.waits(true).ttl("10s").get());
  }

  @Test
  void oneLeads() throws Exception {
    Election election = client.election("x").ttl("10s");
    assertNull(election.leader());
    assertEquals("done", election.run("me", guard -> {
      assertEquals("me", client.election("x").leader().proclaims());
      return "done";
    }));
    AtomicInteger reigns = new AtomicInteger();
    assertEquals(2, (int) election.run("me", guard -> {
      if (reigns.incrementAndGet() == 1) {
        client.breakLock("x", guard.token());
        throw new IllegalStateException("what becomes of it is dropped");
      }
      return reigns.get();
    }));
    assertThrows(IllegalStateException.class, () -> election.run("me", guard -> {
      throw new IllegalStateException();
    }));
    AtomicInteger led = new AtomicInteger();
    assertThrows(LockException.Lost.class, () -> election.run("me", guard -> {
      try (Guard other = client.lock("another").acquire()) {
        return led.incrementAndGet() == 1 && client.breakLock("another", other.token());
      }
    }));
    LockException outage = LockException.made("unavailable", "acquire", "x", "another store", "it does not answer");
    assertThrows(LockException.Unavailable.class, () -> election.run("me", guard -> {
      if (led.incrementAndGet() == 2) {
        throw outage;
      }
      return null;
    }));
    assertEquals(2, led.get());
    Guard leads = election.campaignAsync("me").get();
    assertEquals(leads.token(), election.changed(null).token());
    leads.release();
    assertNull(election.changed(leads.token(), Duration.ofMillis(1)));
    for (Duration every : new Duration[] {Duration.ZERO, Duration.ofMillis(-1), Duration.ofDays(2)}) {
      assertThrows(LockException.InvalidConfig.class, () -> election.changed(1L, every));
    }
  }

  @Test
  void whatIsTheElectionsOwnIsNobodyElses() {
    Election election = client.election("x");
    List<Executable> all = List.of(election::fair, () -> election.fair(false), () -> election.rank(1), () -> election.label("me"));
    for (Executable one : all) {
      String said = assertThrows(LockException.InvalidConfig.class, one).getMessage();
      assertTrue(said.contains("is the election's own"), said);
    }
  }

  @Test
  void anErrorOfSeveralLocksNamesThem() throws Exception {
    // Of no thread: this one would wait for itself.
    Guard held = client.lock("b").acquireAsync().get();
    MultiLock all = client.multiLock("c", "a", "b");
    for (Duration limit : List.of(Duration.ZERO, Duration.ofMillis(20))) {
      LockException.Timeout timeout = assertThrows(LockException.Timeout.class, () -> all.acquire(limit));
      assertEquals("b", timeout.lock());
      assertTrue(timeout.getMessage().contains("\"a\", \"b\", \"c\""), timeout.getMessage());
    }
    Thread.currentThread().interrupt();
    LockException.Cancelled cancelled = assertThrows(LockException.Cancelled.class, all::acquire);
    assertTrue(Thread.interrupted());
    assertNull(cancelled.lock());
    assertTrue(cancelled.getMessage().contains("acquire locks \"a\", \"b\", \"c\" on "), cancelled.getMessage());
    held.release();
  }

  @Test
  void aNumberBelowZeroIsRefusedAsItIs() {
    Striped two = client.striped("x", 2);
    List<Executable> all = List.of(() -> two.segment(-1), () -> two.markSoldOut(-1), () -> two.across(client).segment(-1),
        () -> client.striped("x", -1), () -> client.semaphore("y", -1), () -> client.semaphore("y", 1).take(-1), () -> client.latch("z", -1),
        () -> client.semaphore("y", 1).resize(-1), () -> client.latch("z", 1).trySetCount(-1), () -> client.barrier("b", -1));
    for (Executable one : all) {
      String said = assertThrows(LockException.InvalidConfig.class, one).getMessage();
      assertTrue(said.contains("is -1"), said);
    }
    assertNotNull(two.any());
  }

  @Test
  void aNumberThatCannotBeIsRefusedBeforeAnythingIsMade() {
    Semaphore three = client.semaphore("y", 3);
    Map<Executable, String> all = Map.of(() -> client.semaphore("y", 0), "permits is 0", () -> client.semaphore("y", 1_000_001), "1 to 1000000",
        () -> three.take(0), "take is 0", () -> three.take(4), "take is 4", () -> three.ttl("1m").take(4), "take is 4",
        () -> client.striped("x", 0), "0 segments", () -> client.striped("x", 257), "1 to 256", () -> client.latch("z", 1_000_001), "count",
        () -> client.barrier("b", 10_001), "parties is 10001", () -> client.multiLock(), "no lock is named");
    all.forEach((one, says) -> {
      String said = assertThrows(LockException.InvalidConfig.class, one).getMessage();
      assertTrue(said.contains(says), said);
    });
    assertNotNull(client.semaphore("y", 1_000_000).take(1_000_000).acquire());
  }

  @Test
  void whatIsNoNameIsRefusedBeforeAnythingIsMade() {
    for (String name : new String[] {null, "", "a\0b", "x".repeat(1025), "a\ud800"}) {
      List<Executable> all = List.of(() -> client.lock(name), () -> client.reentrantLock(name), () -> client.readWriteLock(name),
          () -> client.semaphore(name, 1), () -> client.striped(name, 1), () -> client.election(name), () -> client.multiLock("a", name),
          () -> client.once(name, () -> null, token -> null), () -> client.latch(name, 1), () -> client.barrier(name, 1));
      for (Executable one : all) {
        assertThrows(LockException.InvalidConfig.class, one);
      }
    }
  }

  @Test
  void nullIsRefusedByTheNameOfTheArgument() {
    Guard guard = client.lock("x").acquire();
    MultiGuard several = client.multiLock("y", "z").acquire();
    Once.Look<String> look = () -> null;
    Map<Executable, String> all = Map.ofEntries(Map.entry(() -> guard.onLost(null), "callback"),
        Map.entry(() -> guard.onReleaseRequested(null), "callback"), Map.entry(() -> several.onLost(null), "callback"),
        Map.entry(() -> client.lock("x").ownedBy(null), "owner"), Map.entry(() -> client.once("x", null, token -> ""), "look"),
        Map.entry(() -> client.once("x", look, null), "make"), Map.entry(() -> client.election("x").run("me", null), "work"),
        Map.entry(() -> client.election("x").campaign(null), "proclaims"), Map.entry(() -> client.election("x").changed(1L, null), "every"),
        Map.entry(() -> client.striped("s", 2).across((Client) null), "others"),
        Map.entry(() -> client.striped("s", 2).across((Client[]) null), "others"), Map.entry(() -> client.multiLock((String[]) null), "names"),
        Map.entry(() -> client.multiLock((List<String>) null), "names"), Map.entry(() -> client.require((Requirement[]) null), "wanted"),
        Map.entry(() -> client.reentrantLock("x").with(null), "options"), Map.entry(() -> client.reentrantLock("x").tryLock(1, null), "unit"),
        Map.entry(() -> client.reentrantLock("x").tryLock(null), "time"), Map.entry(() -> Lockwright.connect(null, null), "options"),
        Map.entry(() -> new ConnectOptions().ca(null), "file"), Map.entry(() -> Kit.headerValue((Guard) null), "guard"),
        Map.entry(() -> new Kit.Fence().admit((Guard) null), "guard"), Map.entry(() -> Kit.headerValue((Kit.Token) null), "token"));
    all.forEach((given, argument) -> assertEquals(argument, assertThrows(NullPointerException.class, given).getMessage()));
  }

  @Test
  void aLatchOpens() throws Exception {
    Latch two = client.latch("x", 2);
    assertFalse(two.await(Duration.ofMillis(1)));
    CompletableFuture<Boolean> waits = two.awaitAsync(null);
    assertEquals(1, two.countDown());
    assertEquals(0, two.countDownAsync().get());
    assertTrue(waits.get());
    two.await();
    assertEquals(0, two.count());
    assertTrue(two.trySetCount(1));
    assertEquals(1, two.countAsync().get());
    assertFalse(two.trySetCountAsync(3).get());
  }

  @Test
  void aBarrierOpensForAll() throws Exception {
    Barrier three = client.barrier("x", 3, Duration.ofSeconds(10));
    assertNull(three.await(Duration.ofMillis(1)));
    CompletableFuture<Arrival> first = three.awaitAsync(null);
    CompletableFuture<Arrival> second = three.awaitAsync(Duration.ofSeconds(20));
    while (three.waiting() < 2) {
      Thread.onSpinWait();
    }
    Arrival last = three.await();
    assertEquals(Set.of(0, 1, 2), Set.of(first.get().index(), second.get().index(), last.index()));
    assertEquals(last.generation(), first.get().generation());
    assertEquals(0, three.waitingAsync().get());
  }
}
