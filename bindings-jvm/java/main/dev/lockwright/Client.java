package dev.lockwright;

import java.lang.ref.Cleaner;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;

/** One place where locks are kept. Any thread may use it; made by {@link Lockwright#connect()}. */
public final class Client implements AutoCloseable {
  private static final AtomicLong NEXT_SOURCE = new AtomicLong(1);

  final Handle handle;
  final Executor executor;
  private final String address;
  private final Cleaner.Cleanable presence;
  /** What threads hold by locks of {@code java.util.concurrent}. It is dropped with the thread, and its leases end. */
  private final ThreadLocal<AtomicReference<Map<Lock.Key, Deque<Guard>>>> held = ThreadLocal.withInitial(this::place);
  /** Those of all threads: one that outlives the client must not keep guards, and with them a class loader. */
  private final Set<AtomicReference<Map<Lock.Key, Deque<Guard>>>> places = Collections.newSetFromMap(new WeakHashMap<>());

  private Client(Handle handle, String address, Executor executor, Long source) {
    this.handle = handle;
    this.address = address;
    this.executor = executor;
    Agenda.enter();
    presence = Handle.CLEANER.register(this, leave(source));
  }

  private static Runnable leave(Long source) {
    return () -> {
      if (source != null) {
        Agenda.SOURCES.remove(source);
      }
      Agenda.leave();
    };
  }

  static Client open(String url, ConnectOptions given) {
    Log.follow();
    Errands errands = given.executor == null ? null : new Errands(given.executor);
    Long source = given.credentials == null ? null : NEXT_SOURCE.getAndIncrement();
    Request request = new Request(Verb.OPEN).optional(url, text -> {});
    if (url != null) {
      request.text("connect", "url", url);
    }
    request.options("connect", given.options);
    request.flag(source != null);
    if (source != null) {
      request.number(source);
      Agenda.SOURCES.put(source, new Credentials.Source(given.credentials, errands));
    }
    try {
      List<Object> opened = Handle.list(request.call());
      Executor executor = Objects.requireNonNullElse(errands, Taker.EXECUTOR);
      return new Client(new Handle((long) opened.get(0)), (String) opened.get(1), executor, source);
    } catch (LockException error) {
      if (source != null) {
        Agenda.SOURCES.remove(source);
      }
      throw error;
    }
  }

  /** The address without credentials. */
  public String address() {
    return address;
  }

  /**
   * The lock called {@code name}: a text of 1 to 1024 bytes as UTF-8 without control characters. Its options may be said before it is
   * acquired: {@code client.lock("x").ttl("10s").fair().acquire()}.
   *
   * @throws LockException.InvalidConfig for what is no name, here and wherever else one is given
   */
  public Lock lock(String name) {
    return new Lock(this, Lock.Part.ALL, checked(name), 1, 1, Map.of());
  }

  /**
   * The lock called {@code name} as {@link java.util.concurrent.locks.ReentrantLock} has it: the thread that holds it may take it again,
   * and nobody else unlocks it.
   */
  public ReentrantLock reentrantLock(String name) {
    return new ReentrantLock(lock(name).reentrant(true));
  }

  /**
   * The read/write lock called {@code name}: many readers at once, or one writer, first come, first served. A lock of the same name is
   * something else: whoever comes second gets {@link LockException.ForeignLayout}.
   */
  public ReadWriteLock readWriteLock(String name) {
    return new ReadWriteLock(this, checked(name), Map.of());
  }

  /**
   * The semaphore called {@code name}, with {@code permits} permits, 1 to 1,000,000. Whoever first uses an idle one says how many it has,
   * until it is resized.
   *
   * @throws LockException.InvalidConfig for another number, and for what is no name
   */
  public Semaphore semaphore(String name, int permits) {
    return new Semaphore(this, checked(name), checked(permits, 1), Map.of());
  }

  /** The locks called {@code names}, to be held all at once; the options are for each, and the timeout is for all of them. */
  public MultiLock multiLock(String... names) {
    return multiLock(Arrays.asList(Objects.requireNonNull(names, "names")));
  }

  /**
   * As {@link #multiLock(String...)}.
   *
   * @throws LockException.InvalidConfig where none is named
   */
  public MultiLock multiLock(Collection<String> names) {
    List<String> all = Objects.requireNonNull(names, "names").stream().map(this::checked).toList();
    MultiLock locks = new MultiLock(this, all, Map.of());
    if (all.isEmpty()) {
      // Which the library refuses, in its own words.
      locks.names();
    }
    return locks;
  }

  /**
   * The hot lock {@code name} cut into so many segments, 1 to 256.
   *
   * @throws LockException.InvalidConfig for another number, and for what is no name
   */
  public Striped striped(String name, int segments) {
    String checked = checked(name);
    new Request(Verb.CHECK_SEGMENTS, handle).count(Request.whole("lock", "segments", segments)).call();
    return new Striped(this, checked, segments, Map.of());
  }

  /** A job that one caller at a time does, such as to rebuild a cache entry, holding the lock of that name. */
  public <T> Once<T> once(String name, Once.Look<T> look, Once.Make<T> make) {
    return new Once<>(lock(name), look, make, false, Map.of());
  }

  /** One of many leads: whoever holds the lock of that name. */
  public Election election(String name) {
    return new Election(this, checked(name), Map.of());
  }

  /**
   * The latch called {@code name}, which is open once it was counted down {@code count} times (1 to 1,000,000), by whomever. Whoever
   * first uses it says how many.
   */
  public Latch latch(String name, int count) {
    return new Latch(this, name, count, null);
  }

  /** As {@link #latch(String, int)}, forgotten so long after anybody last used it: 60 s to 30 days, which is the default. */
  public Latch latch(String name, int count, Duration idle) {
    return new Latch(this, name, count, idle);
  }

  /**
   * The barrier called {@code name}, which opens whenever {@code parties} (1 to 10,000) wait for it at the same time. Those who wait must
   * name the same number.
   */
  public Barrier barrier(String name, int parties) {
    return new Barrier(this, name, parties, null);
  }

  /** As {@link #barrier(String, int)}, where the place of a party that died is another's after {@code ttl} (20 ms to 24 hours); 30 s. */
  public Barrier barrier(String name, int parties, Duration ttl) {
    return new Barrier(this, name, parties, ttl);
  }

  private String checked(String name) {
    new Request(Verb.CHECK_NAME, handle).text("lock", "name", name).call();
    return name;
  }

  /** The permits of a semaphore of which {@code take} are taken together. */
  int checked(int permits, int take) {
    Request request = new Request(Verb.CHECK_PERMITS, handle).count(Request.whole("lock", "permits", permits));
    request.count(Request.whole("lock", "take", take)).call();
    return permits;
  }

  private Lock exported(String secret) {
    String name = (String) new Request(Verb.EXPORTED, handle).text("resume", "secret", secret).call();
    return new Lock(this, Lock.Part.ALL, name, 1, 1, Map.of());
  }

  /**
   * Takes over a lock that somebody exported from the same store; its token is higher than the exporter's. Nothing is waited for. Where
   * it is to be held with other options than the address says, there is {@link #exportedLock}.
   *
   * @throws LockException.NotOwned when somebody resumed it before, or its time ran out and somebody else has the lock
   * @throws LockException.InvalidConfig for what is no secret
   */
  public Guard resume(String secret) {
    return exported(secret).resume(secret);
  }

  /** As {@link #resume}. */
  public CompletableFuture<Guard> resumeAsync(String secret) {
    return exported(secret).resumeAsync(secret);
  }

  /** The lock that a secret is of, for options of one's own: {@code client.exportedLock(secret).ttl("1m").resume(secret)}. */
  public Lock exportedLock(String secret) {
    return exported(secret);
  }

  /** What locks of this client promise. */
  public Guarantees guarantees() {
    return Guarantees.of((Reply.Fields) new Request(Verb.GUARANTEES, handle).call());
  }

  /**
   * Insists on promises: of locks, or where primitives are named, of each of them.
   *
   * @throws LockException.Unsupported unless all of it is promised
   */
  public void require(Requirement... wanted) {
    Map<String, Object> options = new HashMap<>();
    for (Requirement requirement : Objects.requireNonNull(wanted, "wanted")) {
      options.put(requirement.option(), true);
    }
    new Request(Verb.REQUIRE, handle).options("require", options).call();
  }

  /** What lies under {@code name}: who holds it, and how many wait. */
  public Inspection inspect(String name) {
    return Inspection.of(handle.call("inspect").text("inspect", "name", name).get());
  }

  /** As {@link #inspect}. */
  public CompletableFuture<Inspection> inspectAsync(String name) {
    return begin(handle.job("inspect", 0).text("inspect", "name", name), Inspection::of);
  }

  /** The names of the locks there are under this client's prefix, held or remembered, in order; of latches and barriers, too. */
  public List<String> list() {
    return texts(handle.call("list").get());
  }

  /** As {@link #list}. */
  public CompletableFuture<List<String>> listAsync() {
    return begin(handle.job("list", 0), Client::texts);
  }

  /** Takes the lock from whoever holds it under that token, which {@link #inspect} shows. Whether somebody did. */
  public boolean breakLock(String name, long expectedToken) {
    return (boolean) handle.call("break_lock").text("break", "name", name).number(expectedToken).get();
  }

  /** As {@link #breakLock}. */
  public CompletableFuture<Boolean> breakLockAsync(String name, long expectedToken) {
    return begin(handle.job("break_lock", 0).text("break", "name", name).number(expectedToken), Boolean.class::cast);
  }

  /**
   * Whether locks can be had here, now: a lock of its own, {@code lockwright-ping}, is acquired and given back, with all the rights that
   * takes. For readiness probes; about three requests.
   *
   * @throws LockException why not
   */
  public Health ping() {
    return Health.of(handle.call("ping").get());
  }

  /** As {@link #ping}. */
  public CompletableFuture<Health> pingAsync() {
    return begin(handle.job("ping", 0), Health::of);
  }

  /**
   * Begins nothing any more, and waits until everything that this client holds was released, for at most {@code limit}: for a program
   * that is told to end. Acquisitions fail with {@link LockException.Closed} from now on, also those that wait. The names of the locks
   * that are held yet, none when it is done; {@link #close} gives them back.
   */
  public List<String> drain(Duration limit) {
    return texts(handle.job("drain", 0).span("drain", "limit", limit).get());
  }

  /** As {@link #drain}. */
  public CompletableFuture<List<String>> drainAsync(Duration limit) {
    return begin(handle.job("drain", 0).span("drain", "limit", limit), Client::texts);
  }

  /** What this client did so far. */
  public Metrics metrics() {
    return Metrics.of((Reply.Fields) new Request(Verb.METRICS, handle).call());
  }

  private AtomicReference<Map<Lock.Key, Deque<Guard>>> place() {
    AtomicReference<Map<Lock.Key, Deque<Guard>>> place = new AtomicReference<>(new HashMap<>());
    synchronized (places) {
      places.add(place);
    }
    return place;
  }

  /** What the calling thread holds; nothing once the client was closed. */
  Map<Lock.Key, Deque<Guard>> held() {
    return held.get().get();
  }

  boolean isClosed() {
    return closed.get();
  }

  private void left() {
    presence.clean();
    synchronized (places) {
      places.forEach(place -> place.set(new HashMap<>()));
    }
  }

  private final AtomicBoolean closed = new AtomicBoolean();

  /**
   * Gives back what is held, whose guards are lost by it ({@link LossReason#CLOSED}), and ends every wait with {@link
   * LockException.Closed}. The second time it does nothing.
   */
  @Override
  public void close() {
    if (!closed.getAndSet(true)) {
      try {
        handle.job("close", 0).get();
      } finally {
        left();
      }
    }
  }

  /** As {@link #close}. */
  public CompletableFuture<Void> closeAsync() {
    if (closed.getAndSet(true)) {
      return CompletableFuture.completedFuture(null);
    }
    return begin(handle.job("close", 0), outcome -> {
      left();
      return null;
    });
  }

  @Override
  public String toString() {
    return "Client[" + address + "]";
  }

  /** Of what nobody has to give back. */
  private <T> Job<T> begin(Handle.Call call, Function<Object, T> read) {
    return call.begin(executor, read, null);
  }

  @SuppressWarnings("unchecked")
  private static List<String> texts(Object told) {
    return (List<String>) told;
  }
}
