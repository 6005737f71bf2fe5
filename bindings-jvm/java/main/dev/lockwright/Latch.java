package dev.lockwright;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** A count that whoever counts takes one off, and that those who wait want at 0; as {@link java.util.concurrent.CountDownLatch}, over all processes. */
public final class Latch {
  private final Client client;
  private final String name;
  private final Handle handle;

  Latch(Client client, String name, int count, Duration idle) {
    this.client = client;
    this.name = name;
    Request request = new Request(Verb.LATCH, client.handle).text("latch", "name", name);
    request.count(Request.whole("latch", "count", count));
    handle = new Handle((long) request.optional(idle, span -> request.span("latch", "idle", span)).call());
  }

  /** Its name. */
  public String name() {
    return name;
  }

  /**
   * Waits until it is open, as long as it takes.
   *
   * @throws InterruptedException when the thread is interrupted while it waits; the status is clear
   * @throws LockException.Unavailable when the store does not answer; so with all that is asked here
   */
  public void await() throws InterruptedException {
    handle.call("wait").limit(null).getInterruptibly();
  }

  /** Waits until it is open, for at most {@code timeout}; whether it is. */
  public boolean await(Duration timeout) throws InterruptedException {
    return (boolean) handle.call("wait").limit(timeout).getInterruptibly();
  }

  /** As {@link #await(Duration)}; for as long as it takes where {@code timeout} is null. */
  public CompletableFuture<Boolean> awaitAsync(Duration timeout) {
    return handle.job("wait", 0).limit(timeout).begin(client.executor, Boolean.class::cast, open -> {});
  }

  /** Takes one off, unless it is open. How many are still to come. */
  public int countDown() {
    return Latch.number(handle.call("count_down").get());
  }

  /** As {@link #countDown}. */
  public CompletableFuture<Integer> countDownAsync() {
    return handle.job("count_down", 0).begin(client.executor, Latch::number, null);
  }

  /** How many are still to come; 0 once it is open. */
  public int count() {
    return number(handle.call("count").get());
  }

  /** As {@link #count}. */
  public CompletableFuture<Integer> countAsync() {
    return handle.job("count", 0).begin(client.executor, Latch::number, null);
  }

  /** Has it count from {@code count} again, if it is open or nobody used it yet; whether it does. */
  public boolean trySetCount(int count) {
    return (boolean) handle.call("try_set_count").count("latch", "count", count).get();
  }

  /** As {@link #trySetCount}. */
  public CompletableFuture<Boolean> trySetCountAsync(int count) {
    return handle.job("try_set_count", 0).count("latch", "count", count).begin(client.executor, Boolean.class::cast, null);
  }

  private static int number(Object told) {
    return (int) (long) told;
  }

  @Override
  public String toString() {
    return "Latch[" + name + " on " + client.address() + "]";
  }
}
