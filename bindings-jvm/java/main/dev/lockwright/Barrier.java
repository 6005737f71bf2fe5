package dev.lockwright;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** Opens for as many as wait for it at the same time, and closes behind them; as {@link java.util.concurrent.CyclicBarrier}, over all processes. */
public final class Barrier {
  private final Client client;
  private final String name;
  private final Handle handle;

  Barrier(Client client, String name, int parties, Duration ttl) {
    this.client = client;
    this.name = name;
    Request request = new Request(Verb.BARRIER, client.handle).text("barrier", "name", name);
    request.count(Request.whole("barrier", "parties", parties));
    handle = new Handle((long) request.optional(ttl, span -> request.span("barrier", "ttl", span)).call());
  }

  /** Its name. */
  public String name() {
    return name;
  }

  /**
   * Waits until as many wait as there are parties. Other than a {@link java.util.concurrent.CyclicBarrier} it does not break: who gives up
   * leaves its place to another.
   *
   * @throws InterruptedException when the thread is interrupted while it waits; the status is clear
   * @throws LockException.Lost when this process was stopped for so long that nobody knows whether it passed
   * @throws LockException.InvalidConfig when those who wait named another number of parties
   * @throws LockException.Unavailable when the store does not answer
   */
  public Arrival await() throws InterruptedException {
    return Arrival.of(handle.call("wait").limit(null).getInterruptibly());
  }

  /** As {@link #await()}, for at most {@code timeout}; null when too few came in that time. */
  public Arrival await(Duration timeout) throws InterruptedException {
    return Arrival.of(handle.call("wait").limit(timeout).getInterruptibly());
  }

  /** As {@link #await(Duration)}; for as long as it takes where {@code timeout} is null. */
  public CompletableFuture<Arrival> awaitAsync(Duration timeout) {
    return handle.job("wait", 0).limit(timeout).begin(client.executor, Arrival::of, arrival -> {});
  }

  /** How many wait for it at this moment. */
  public int waiting() {
    return (int) (long) handle.call("waiting").get();
  }

  /** As {@link #waiting}. */
  public CompletableFuture<Integer> waitingAsync() {
    return handle.job("waiting", 0).begin(client.executor, told -> (int) (long) told, null);
  }

  @Override
  public String toString() {
    return "Barrier[" + name + " on " + client.address() + "]";
  }
}
