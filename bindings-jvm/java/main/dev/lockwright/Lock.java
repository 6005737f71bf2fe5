package dev.lockwright;

import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;

/**
 * A named lock, to be acquired as often as one likes; what is acquired is a {@link Guard}. It is not reentrant unless that is asked for:
 * a thread that waits for what it holds itself gets {@link LockException.Deadlock}.
 *
 * <p>{@code client.reentrantLock(name)} is the same lock as {@code java.util.concurrent.locks.Lock}.
 */
public final class Lock extends Options<Lock> {
  /** What of a name is locked, as the native library numbers it. */
  enum Part {
    ALL,
    READ,
    WRITE,
    PERMITS
  }

  /** Which locks of a client are the same. */
  record Key(Part part, String name) {}

  final Client client;
  private final Part part;
  private final String name;
  private final int permits;
  private final int take;
  private final Owner owner;
  private volatile Handle handle;

  Lock(Client client, Part part, String name, int permits, int take, Map<String, Object> options) {
    this(client, part, name, permits, take, options, null, null);
  }

  private Lock(Client client, Part part, String name, int permits, int take, Map<String, Object> options, Owner owner, Handle handle) {
    super(options);
    this.client = client;
    this.part = part;
    this.name = name;
    this.permits = permits;
    this.take = take;
    this.owner = owner;
    this.handle = handle;
  }

  /** One that the native library has already. */
  static Lock of(Client client, String name, Map<String, Object> options, Handle handle) {
    return new Lock(client, Part.ALL, name, 1, 1, options, null, handle);
  }

  @Override
  Lock with(Map<String, Object> options) {
    return new Lock(client, part, name, permits, take, options, owner, null);
  }

  /** The same lock, which {@code owner} acquires, whoever calls. It is reentrant. */
  public Lock ownedBy(Owner owner) {
    Objects.requireNonNull(owner, "owner");
    return new Lock(client, part, name, permits, take, with("reentrant", true).options, owner, null);
  }

  /** Its name, without the prefix of the address. */
  public String name() {
    return name;
  }

  Key key() {
    return new Key(part, name);
  }

  Handle handle() {
    Handle made = handle;
    if (made == null) {
      Request request = new Request(Verb.LOCK, client.handle).text("lock", "name", name).octet(part.ordinal());
      made = new Handle((long) request.count(permits).count(take).options("lock", options).call());
      handle = made;
    }
    return made;
  }

  /** The same as elections have it. */
  Lock forElection() {
    Handle seat = new Handle((long) new Request(Verb.FOR_ELECTION, handle()).call());
    return new Lock(client, part, name, permits, take, options, owner, seat);
  }

  boolean isReentrant() {
    return Boolean.TRUE.equals(options.get("reentrant"));
  }

  private long waiter() {
    return owner == null ? Owner.ofThread() : owner.number;
  }

  private long asker() {
    if (owner == null && isReentrant()) {
      throw new LockException.InvalidConfig("acquire", "a future belongs to no thread, so a reentrant lock needs an owner: use ownedBy");
    }
    return owner == null ? 0 : owner.number;
  }

  private Guard guard(Object granted) {
    return new Guard(client, (Reply.Grant) granted);
  }

  /**
   * Waits for the lock, as long as its timeout says.
   *
   * @throws LockException.Timeout when others held it all the time, and who they are
   * @throws LockException.Cancelled when the thread is interrupted; the interrupt status stays set. Where the lock was granted before
   *     that, it is returned, with the status set
   * @throws LockException.Deadlock when this thread holds it itself, or would wait for itself over other locks, without a limit
   * @throws LockException.Unavailable when the store does not answer
   */
  public Guard acquire() {
    return acquireWithin(null);
  }

  /** As {@link #acquire()}, for at most {@code timeout}. */
  public Guard acquire(Duration timeout) {
    return acquireWithin(timeout);
  }

  /** As {@link #acquire(Duration)}, with a text such as {@code "2s"}. */
  public Guard acquire(String timeout) {
    return acquireWithin(timeout);
  }

  Guard acquireWithin(Object timeout) {
    try {
      return acquireInterruptibly(timeout);
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
      throw LockException.cancelled(name, client.address());
    }
  }

  Guard acquireInterruptibly(Object timeout) throws InterruptedException {
    return guard(handle().call("acquire", waiter()).limit(timeout).getInterruptibly());
  }

  /** Whatever interrupts; the interrupt status is set then. */
  Guard acquireUninterruptibly() {
    return guard(handle().call("acquire", waiter()).limit(Request.FOR_EVER).get());
  }

  /** The lock if it is free; null when somebody else holds it. An interrupt changes nothing. */
  public Guard tryAcquire() {
    try {
      return guard(handle().call("acquire", waiter()).limit(Duration.ZERO).get());
    } catch (LockException.Timeout taken) {
      return null;
    }
  }

  /**
   * As {@link #acquire()}; completes with a guard, or exceptionally with a {@link LockException}. Whoever completes it before that, by {@code
   * cancel}, {@code orTimeout}, {@code completeOnTimeout} or {@code complete}, leaves the queue; a lock that was granted just then is given
   * back.
   */
  public CompletableFuture<Guard> acquireAsync() {
    return begin(null);
  }

  /** As {@link #acquireAsync()}, for at most {@code timeout}. */
  public CompletableFuture<Guard> acquireAsync(Duration timeout) {
    return begin(timeout);
  }

  /** As {@link #tryAcquire}; completes with null when somebody else holds it. Whoever cancels or completes it gives back what was granted just then. */
  public CompletableFuture<Guard> tryAcquireAsync() {
    // What depended on another future would leave to itself, when it is cancelled, what that gets.
    return asked(Duration.ZERO).attempt(executor(), this::guardIfFree, Guard::giveBack);
  }

  private Guard guardIfFree(Object outcome) {
    boolean taken = outcome instanceof Reply.Failure failure && failure.code().equals("timeout");
    return taken ? null : guard(Reply.checked(outcome));
  }

  private Job<Guard> begin(Object timeout) {
    return asked(timeout).begin(executor(), this::guard, Guard::giveBack);
  }

  private Handle.Call asked(Object timeout) {
    return handle().job("acquire", asker()).limit(timeout);
  }

  private Executor executor() {
    return client.executor;
  }

  /**
   * Takes the lock over from {@code secret}, as {@link Client#resume}, with this lock's options.
   *
   * @throws LockException.NotOwned when somebody resumed it before
   */
  public Guard resume(String secret) {
    return guard(handle().call("resume", waiter()).text("resume", "secret", secret).get());
  }

  /** As {@link #resume}. */
  public CompletableFuture<Guard> resumeAsync(String secret) {
    return handle().job("resume", asker()).text("resume", "secret", secret).begin(executor(), this::guard, Guard::giveBack);
  }

  /** Who holds it, and how many wait for it. */
  public Inspection inspect() {
    return Inspection.of(handle().call("inspect").get());
  }

  /** As {@link #inspect}. */
  public CompletableFuture<Inspection> inspectAsync() {
    return handle().job("inspect", 0).begin(executor(), Inspection::of, null);
  }

  /** Takes it from whoever holds it under that token, which {@link #inspect} shows. Whether somebody did. */
  public boolean breakLock(long expectedToken) {
    return (boolean) handle().call("break_lock").number(expectedToken).get();
  }

  /** As {@link #breakLock}. */
  public CompletableFuture<Boolean> breakLockAsync(long expectedToken) {
    return handle().job("break_lock", 0).number(expectedToken).begin(executor(), Boolean.class::cast, null);
  }

  /**
   * Asks whoever holds it under that token, which {@link #inspect} shows, to give it back. Whether somebody does. Whose lock is
   * {@link Options#revocable} is told, here or with Curator, and goes on as it likes: {@link #breakLock} takes it.
   *
   * @throws LockException.Unsupported where the layout has no such message
   */
  public boolean requestRelease(long expectedToken) {
    return (boolean) handle().call("request_release").number(expectedToken).get();
  }

  /** As {@link #requestRelease}. */
  public CompletableFuture<Boolean> requestReleaseAsync(long expectedToken) {
    return handle().job("request_release", 0).number(expectedToken).begin(executor(), Boolean.class::cast, null);
  }

  /** What it promises in its layout. */
  public Guarantees guarantees() {
    return Guarantees.of((Reply.Fields) new Request(Verb.GUARANTEES, handle()).call());
  }

  @Override
  public String toString() {
    return "Lock[" + name + " on " + client.address() + "]";
  }
}
