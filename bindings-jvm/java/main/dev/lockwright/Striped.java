package dev.lockwright;

import java.lang.ref.Reference;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A hot lock cut into segments, each of which guards its part of what is shared: of a stock, say. What is sold out is known to this
 * object alone.
 */
public final class Striped extends Options<Striped> {
  /** Of the stores that the segments lie with, in turn. */
  private final List<Client> clients;

  private final String name;
  private final int segments;
  private volatile Handle handle;

  Striped(Client client, String name, int segments, Map<String, Object> options) {
    this(List.of(client), name, segments, options);
  }

  private Striped(List<Client> clients, String name, int segments, Map<String, Object> options) {
    super(options);
    this.clients = clients;
    this.name = name;
    this.segments = segments;
  }

  @Override
  Striped with(Map<String, Object> options) {
    return new Striped(clients, name, segments, options);
  }

  /**
   * The same segments at more stores, so that none has all the load: those of this one and of {@code others}, in turn. Every
   * process must name the same stores in the same order. One that cannot be reached is left out for ten seconds, while others answer.
   *
   * <p>Its first use is a {@link LockException.InvalidConfig} where there are more stores than segments, and a {@link
   * LockException.Unsupported} where another store cannot do what the options ask for.
   */
  public Striped across(Client... others) {
    Stream<Client> more = Stream.of(Objects.requireNonNull(others, "others")).map(other -> Objects.requireNonNull(other, "others"));
    return new Striped(Stream.concat(clients.stream(), more).toList(), name, segments, options);
  }

  private synchronized Handle made() {
    if (handle == null) {
      List<Client> others = clients.subList(1, clients.size());
      Request request = new Request(Verb.STRIPED, clients.get(0).handle).text("lock", "name", name).count(segments).options("lock", options);
      request.count(others.size());
      others.forEach(other -> request.number(other.handle.number));
      handle = new Handle((long) request.call());
      Reference.reachabilityFence(clients);
    }
    return handle;
  }

  private Handle handle() {
    Handle there = handle;
    return there == null ? made() : there;
  }

  private Client clientOf(int index) {
    return clients.get(index % clients.size());
  }

  private String addresses() {
    return clients.stream().map(Client::address).collect(Collectors.joining(", "));
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
    return new Segment(this, of.index(), new Guard(clientOf(of.index()), of.grant()));
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
      throw LockException.cancelled(name, addresses());
    }
  }

  /** As {@link #any()}. */
  public CompletableFuture<Segment> anyAsync() {
    return handle().job("any", 0).limit(null).begin(clients.get(0).executor, this::segmentOf, Guard::giveBack);
  }

  /** As {@link #any(Duration)}. */
  public CompletableFuture<Segment> anyAsync(Duration timeout) {
    return handle().job("any", 0).limit(timeout).begin(clients.get(0).executor, this::segmentOf, Guard::giveBack);
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
   * The lock of the segment of that index, from 0, with the options of all.
   *
   * @throws LockException.InvalidConfig where there is no such segment
   */
  public Lock segment(int index) {
    Handle segment = new Handle((long) ofSegment(Verb.SEGMENT, index).call());
    return Lock.of(clientOf(index), name + "#" + index, options, segment);
  }

  /**
   * Nothing is left in a segment: {@link #any()} does not offer it again.
   *
   * @throws LockException.InvalidConfig where there is no such segment
   */
  public void markSoldOut(int index) {
    ofSegment(Verb.MARK_SOLD_OUT, index).call();
  }

  private Request ofSegment(Verb verb, int index) {
    return new Request(verb, handle()).count(Request.whole("lock", "the index of a segment", index));
  }

  /** All segments are offered again. */
  public void restock() {
    new Request(Verb.RESTOCK, handle()).call();
  }

  @Override
  public String toString() {
    return "Striped[" + name + " in " + segments + " on " + addresses() + "]";
  }
}
