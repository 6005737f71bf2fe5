package dev.lockwright;

import java.util.Map;
import java.util.Objects;

/**
 * A job that one caller at a time does, such as to rebuild a cache entry that expired. Whoever gets it looks once more first. If whoever
 * has it dies, it goes to the next after the lock's {@code ttl} at most; if {@link Make} throws, at once. Its options are the lock's.
 *
 * @param <T> what is made
 */
public final class Once<T> extends Options<Once<T>> {
  /** What a look found, and whether it is good; what is not is to be made anew, and does meanwhile. */
  public record Found<T>(T value, boolean fresh) {}

  /** Looks whether there is a value already; null where there is none that would do. */
  @FunctionalInterface
  public interface Look<T> {
    /** The value there is. */
    Found<T> look() throws Exception;
  }

  /** Makes and keeps a value. */
  @FunctionalInterface
  public interface Make<T> {
    /** The fencing token lets the cache refuse what comes too late. */
    T make(long token) throws Exception;
  }

  private final Lock lock;
  private final Look<T> look;
  private final Make<T> make;
  private final boolean waits;

  Once(Lock lock, Look<T> look, Make<T> make, boolean waits, Map<String, Object> options) {
    super(options);
    this.lock = lock;
    this.look = Objects.requireNonNull(look, "look");
    this.make = Objects.requireNonNull(make, "make");
    this.waits = waits;
  }

  @Override
  Once<T> with(Map<String, Object> options) {
    return new Once<>(lock.with(options), look, make, waits, options);
  }

  /** Whether callers wait for a fresh value though there is a stale one; false. */
  public Once<T> waits(boolean waits) {
    return new Once<>(lock, look, make, waits, options);
  }

  /**
   * The value, fresh or as {@link Make} made it; where somebody else makes it, the stale one, or what comes of waiting.
   *
   * @throws Exception what look and make throw, and as {@link Lock#acquire()}
   */
  public T get() throws Exception {
    Found<T> found = look.look();
    if (found != null && found.fresh) {
      return found.value;
    }
    boolean mayWait = found == null || waits;
    try (Guard guard = mayWait ? lock.acquire() : lock.tryAcquire()) {
      if (guard == null) {
        return found.value;
      }
      Found<T> again = look.look();
      return again != null && again.fresh ? again.value : make.make(guard.token());
    }
  }
}
