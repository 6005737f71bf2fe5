package dev.lockwright;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** Several named locks that are acquired together: all or none, in an order in which nobody deadlocks. */
public final class MultiLock extends Options<MultiLock> {
  private final Client client;
  private final List<String> given;
  private volatile Made made;

  private record Made(Handle handle, List<String> names) {}

  MultiLock(Client client, List<String> names, Map<String, Object> options) {
    super(options);
    this.client = client;
    given = names;
  }

  @Override
  MultiLock with(Map<String, Object> options) {
    return new MultiLock(client, given, options);
  }

  @SuppressWarnings("unchecked")
  private Made made() {
    Made there = made;
    if (there == null) {
      Request request = new Request(Verb.MULTI_LOCK, client.handle).texts("lock", "name", given).options("lock", options);
      List<Object> told = Handle.list(request.call());
      there = new Made(new Handle((long) told.get(0)), List.copyOf((List<String>) told.get(1)));
      made = there;
    }
    return there;
  }

  /** Each name once, in the order in which they are taken. */
  public List<String> names() {
    return made().names;
  }

  private MultiGuard guard(Object granted) {
    return new MultiGuard(client, ((Reply.Grants) granted).all().stream().map(grant -> new Guard(client, grant)).toList());
  }

  /**
   * Waits until all are held.
   *
   * @throws LockException.Timeout when others held one of them all the time; then none is held. Else as {@link Lock#acquire()}
   */
  public MultiGuard acquire() {
    return within(null);
  }

  /** As {@link #acquire()}, for at most {@code timeout}, which is for all of them. */
  public MultiGuard acquire(Duration timeout) {
    return within(timeout);
  }

  private MultiGuard within(Object timeout) {
    try {
      return guard(made().handle.call("acquire", Owner.ofThread()).limit(timeout).getInterruptibly());
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
      throw LockException.cancelled(names(), client.address());
    }
  }

  /** All of them, if all are free; null when somebody else holds one. An interrupt changes nothing. */
  public MultiGuard tryAcquire() {
    try {
      return guard(made().handle.call("acquire", Owner.ofThread()).limit(Duration.ZERO).get());
    } catch (LockException.Timeout taken) {
      return null;
    }
  }

  /** As {@link #acquire()}. Whoever cancels or completes it gives back what was acquired. */
  public CompletableFuture<MultiGuard> acquireAsync() {
    return begin(null);
  }

  /** As {@link #acquire(Duration)}. */
  public CompletableFuture<MultiGuard> acquireAsync(Duration timeout) {
    return begin(timeout);
  }

  private Job<MultiGuard> begin(Object timeout) {
    return made().handle.job("acquire", 0).limit(timeout).begin(client.executor, this::guard, Guard::giveBack);
  }

  @Override
  public String toString() {
    return "MultiLock" + given + " on " + client.address();
  }
}
