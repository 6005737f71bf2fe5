package dev.lockwright;

import java.time.Duration;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/** Several locks that are held together, until they are released: the loss of one is the loss of all. */
public final class MultiGuard implements AutoCloseable {
  private final Client client;
  private final List<Guard> guards;

  MultiGuard(Client client, List<Guard> guards) {
    this.client = client;
    this.guards = guards;
  }

  /** The guard of each lock, to be released each at its own time. */
  public List<Guard> guards() {
    return guards;
  }

  /** The fencing token of each lock, by its name. */
  public Map<String, Long> tokens() {
    Map<String, Long> tokens = new LinkedHashMap<>();
    guards.forEach(guard -> tokens.put(guard.name(), guard.token()));
    return tokens;
  }

  /** Whether all are certainly held at this moment. */
  public boolean isHeld() {
    return guards.stream().allMatch(Guard::isHeld);
  }

  /** How much longer all are certainly held without a further renewal. */
  public Duration remaining() {
    return guards.stream().map(Guard::remaining).min(Comparator.naturalOrder()).orElse(Duration.ZERO);
  }

  /** Why the first of them that was lost was; null while none is. */
  public LossReason whyLost() {
    return guards.stream().map(Guard::whyLost).filter(Objects::nonNull).findFirst().orElse(null);
  }

  /** Has {@code callback} called once, when the first of them is lost; as {@link Guard#onLost}. */
  public void onLost(Consumer<LossReason> callback) {
    Objects.requireNonNull(callback, "callback");
    AtomicBoolean told = new AtomicBoolean();
    guards.forEach(guard -> guard.onLost(why -> {
      if (!told.getAndSet(true)) {
        callback.accept(why);
      }
    }));
  }

  /** Makes every lease last {@code ttl} from now, and at every renewal; as {@link Guard#extend(Duration)}. */
  public void extend(Duration ttl) {
    guards.forEach(guard -> guard.extend(ttl));
  }

  /**
   * Gives all back, in one write. What the store found: of the first that was not simply released, if any.
   *
   * @throws LockException the first error, when all the others are given back; theirs are among its suppressed ones
   */
  public ReleaseOutcome release() {
    return outcome(Guard.releaseAll(guards, false));
  }

  /** As {@link #release}. */
  public CompletableFuture<ReleaseOutcome> releaseAsync() {
    return Guard.releaseAllAsync(client, guards).thenApply(MultiGuard::outcome);
  }

  private static ReleaseOutcome outcome(List<Object> endings) {
    LockException first = null;
    ReleaseOutcome outcome = ReleaseOutcome.RELEASED;
    for (Object ending : endings) {
      if (ending instanceof Reply.Failure failure) {
        LockException failed = failure.exception();
        if (first == null) {
          first = failed;
        } else {
          first.addSuppressed(failed);
        }
      } else if (outcome == ReleaseOutcome.RELEASED) {
        outcome = (ReleaseOutcome) ending;
      }
    }
    if (first != null) {
      throw first;
    }
    return outcome;
  }

  /** Ends a block, as {@link Guard#close}: each is given back, and the first loss is thrown. */
  @Override
  public void close() {
    outcome(Guard.releaseAll(guards, true));
  }

  @Override
  public String toString() {
    return "MultiGuard" + guards;
  }
}
