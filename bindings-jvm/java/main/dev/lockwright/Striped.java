package dev.lockwright;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * A hot lock cut into segments, each of which guards its part of what is shared: of a stock, say. What is sold out is known to this
 * object alone.
 */
public final class Striped extends Options<Striped> {
  private final Client client;
  private final String name;
  private final int segments;
  private volatile Handle handle;

  Striped(Client client, String name, int segments, Map<String, Object> options) {
    super(options);
    this.client = client;
    this.name = name;
    this.segments = segments;
  }

  @Override
  Striped with(Map<String, Object> options) {
    return new Striped(client, name, segments, options);
  }

  private synchronized Handle made() {
    if (handle == null) {
      Request request = new Request(Verb.STRIPED, client.handle).text("lock", "name", name).count(segments).options(options);
      handle = new Handle((long) request.call());
    }
    return handle;
  }

  private Handle handle() {
    Handle there = handle;
    return there == null ? made() : there;
  }

  /** How many segments there are. */
  public int count() {
    return segments;
  }

  private Segment segmentOf(Object granted) {
    if (granted == null) {
      return null;
    }
    Reply.SegmentGrant of = (Reply.SegmentGrant) granted;
    return new Segment(this, of.index(), new Guard(client, of.grant()));
  }

  /**
   * Any free segment; null when all are sold out.
   *
   * @throws LockException as {@link Lock#acquire()}; {@link LockException.Timeout} when all that are not sold out were held all the time
   */
  public Segment any() {
    return within(null);
  }

  /** As {@link #any()}, waiting for at most {@code timeout}. */
  public Segment any(Duration timeout) {
    return within(timeout);
  }

  private Segment within(Object timeout) {
    try {
      // It waits now for this segment and now for that one, by timers that a parked thread does not have.
      return segmentOf(handle().job("any", 0).limit(timeout).getInterruptibly());
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
      throw LockException.cancelled(name, client.address());
    }
  }

  /** As {@link #any()}. */
  public CompletableFuture<Segment> anyAsync() {
    return handle().job("any", 0).limit(null).begin(client.executor, this::segmentOf, Guard::giveBack);
  }

  /** As {@link #any(Duration)}. */
  public CompletableFuture<Segment> anyAsync(Duration timeout) {
    return handle().job("any", 0).limit(timeout).begin(client.executor, this::segmentOf, Guard::giveBack);
  }

  /** The segment that a key belongs to, the same in every process and language. */
  public int indexFor(String key) {
    Request request = new Request(Verb.INDEX_FOR, handle()).text("lock", "key", key);
    return (int) (long) request.call();
  }

  /** The lock of the segment that a key belongs to. */
  public Lock forKey(String key) {
    return segment(indexFor(key));
  }

  /**
   * The lock of the segment of that index, from 0.
   *
   * @throws LockException.InvalidConfig where there is no such segment
   */
  public Lock segment(int index) {
    Handle segment = new Handle((long) new Request(Verb.SEGMENT, handle()).count(index).call());
    return Lock.of(client, name, segment);
  }

  /** Nothing is left in a segment: {@link #any()} does not offer it again. */
  public void markSoldOut(int index) {
    new Request(Verb.MARK_SOLD_OUT, handle()).count(index).call();
  }

  /** All segments are offered again. */
  public void restock() {
    new Request(Verb.RESTOCK, handle()).call();
  }

  @Override
  public String toString() {
    return "Striped[" + name + " in " + segments + " on " + client.address() + "]";
  }
}
