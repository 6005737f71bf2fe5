package dev.lockwright;

import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The options of a lock, and of whatever is made of locks. Each method gives a copy with that option; what is not said stays as the
 * client's address says, else as it says here. Whether an option can be honoured is seen at the first use.
 *
 * @param <S> what the options are of
 */
public abstract class Options<S extends Options<S>> {
  final Map<String, Object> options;

  Options(Map<String, Object> options) {
    this.options = options;
  }

  /** The same with other options. */
  abstract S with(Map<String, Object> options);

  final S with(String name, Object value) {
    if (value == null) {
      throw new LockException.InvalidConfig("lock", name + " is null; leave it out");
    }
    Map<String, Object> more = new LinkedHashMap<>(options);
    more.put(name, value);
    return with(Collections.unmodifiableMap(more));
  }

  /** How long it stays ours without a renewal: 20 ms to 24 hours; 30 s. */
  public final S ttl(Duration ttl) {
    return with("ttl", ttl);
  }

  /** As {@link #ttl(Duration)}, with a text such as {@code "10s"}. */
  public final S ttl(String ttl) {
    return with("ttl", ttl);
  }

  /** How long to wait for others; as long as it takes. */
  public final S timeout(Duration timeout) {
    return with("timeout", timeout);
  }

  /** As {@link #timeout(Duration)}. */
  public final S timeout(String timeout) {
    return with("timeout", timeout);
  }

  /** Whether it is renewed while it is held; true. */
  public final S renew(boolean renew) {
    return with("renew", renew);
  }

  /** How long after the grant renewal ends; never. */
  public final S maxHold(Duration most) {
    return with("maxHold", most);
  }

  /** As {@link #maxHold(Duration)}. */
  public final S maxHold(String most) {
    return with("maxHold", most);
  }

  /** How long after the grant it stays taken however early it is released, as {@link Guard#holdAtLeastFor(Duration)}; 0. */
  public final S atLeastFor(Duration least) {
    return with("atLeastFor", least);
  }

  /** As {@link #atLeastFor(Duration)}. */
  public final S atLeastFor(String least) {
    return with("atLeastFor", least);
  }

  /** First come, first served over all processes; false. */
  public final S fair(boolean fair) {
    return with("fair", fair);
  }

  /** First come, first served over all processes. */
  public final S fair() {
    return fair(true);
  }

  /**
   * With {@link #fair()}: how urgent it is, from 0 to 9; 0. Higher ranks go first, and within a rank whoever came first; every 10 s of
   * waiting count as one rank, so that nobody waits for ever.
   */
  public final S rank(int rank) {
    return with("rank", (double) rank);
  }

  /**
   * Whether its owner may acquire it again: the thread that calls what waits, and for what returns a future the {@link Owner} that it
   * names; false.
   */
  public final S reentrant(boolean reentrant) {
    return with("reentrant", reentrant);
  }

  /**
   * Whether its holder listens for others who ask for the lock back ({@link Lock#requestRelease}, or Curator's {@code Revoker}), which its
   * guard tells: {@link Guard#onReleaseRequested}; false. Costs a request more at each acquisition; only the layout {@code curator} has such
   * a message.
   */
  public final S revocable(boolean revocable) {
    return with("revocable", revocable);
  }

  /** How it lies in the store, such as {@code string}. */
  public final S layout(String layout) {
    return with("layout", layout);
  }

  /** Whose locks of that layout it joins, such as {@code redis-py}. */
  public final S format(String format) {
    return with("format", format);
  }

  /** The first and the longest pause between two tries of a waiter that nobody tells of its turn; 2 ms, 64 ms. */
  public final S retry(Duration first, Duration longest) {
    return with("retry", new Request.Range(first, longest));
  }

  /** A text that {@link Client#inspect} shows. */
  public final S label(String label) {
    return with("label", label);
  }
}
