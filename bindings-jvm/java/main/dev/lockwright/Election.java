package dev.lockwright;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;

/**
 * The leader is whoever holds the lock of that name; candidates wait for it in order, where the store promises {@code fair}. The options'
 * {@code ttl} says within what time a leader that died is replaced, {@code timeout} how long to campaign; {@code fair}, {@code rank} and {@code
 * label} are the election's own, and a {@link LockException.InvalidConfig} for whoever says them.
 */
public final class Election extends Options<Election> {
  /** How often an observer looks, and a candidate asks a store that does not answer. */
  private static final Duration EVERY = Duration.ofMillis(500);
  private static final Duration SHORTEST = Duration.ofMillis(1);
  private static final Duration LONGEST = Duration.ofDays(1);

  private static final List<String> OWN = List.of("fair", "rank", "label");

  /** Who leads; {@code token} is higher with every leader, {@code leadsFor} null where the store cannot tell. */
  public record Leader(String proclaims, String host, long pid, String language, long token, Duration leadsFor) {}

  /** What a leader does. */
  @FunctionalInterface
  public interface Work<T> {
    /** Does it; has to end soon once the guard is lost. */
    T lead(Guard guard) throws Exception;
  }

  private final Client client;
  private final String name;

  Election(Client client, String name, Map<String, Object> options) {
    super(options);
    for (String own : OWN) {
      if (options.containsKey(own)) {
        throw new LockException.InvalidConfig("lock", own + " is the election's own; leave it out");
      }
    }
    this.client = client;
    this.name = name;
  }

  @Override
  Election with(Map<String, Object> options) {
    return new Election(client, name, options);
  }

  private Lock lock() {
    return new Lock(client, Lock.Part.ALL, name, 1, 1, options);
  }

  private Lock seat(String proclaims) {
    Objects.requireNonNull(proclaims, "proclaims");
    return lock().fair(false).rank(0).label(proclaims).forElection();
  }

  /**
   * Waits to lead, and proclaims a text of at most 128 bytes from then on. Leadership is a guard like any other: {@link Guard#onLost}
   * tells when it is lost, and releasing it resigns.
   *
   * @throws LockException as {@link Lock#acquire()}
   */
  public Guard campaign(String proclaims) {
    return seat(proclaims).acquire();
  }

  /** As {@link #campaign}. */
  public CompletableFuture<Guard> campaignAsync(String proclaims) {
    return seat(proclaims).acquireAsync();
  }

  /**
   * Campaigns, and calls {@code work} as the leader; resigns when that is over, and ends as it did. When leadership is lost before, what
   * becomes of {@code work} is dropped, and it campaigns again. A store that does not answer is asked again every 500 ms: leadership is
   * not given up for good because of an outage. An interrupt ends a candidacy.
   *
   * @throws Exception what {@code work} throws as the leader, whatever it is; what its resignation does; and as {@link #campaign}, but neither
   *     {@link LockException.Unavailable} nor {@link LockException.Lost}
   */
  public <T> T run(String proclaims, Work<T> work) throws Exception {
    Objects.requireNonNull(work, "work");
    Lock seat = seat(proclaims);
    while (true) {
      Guard guard = elected(seat);
      try (guard) {
        T result = work.lead(guard);
        if (guard.whyLost() == null) {
          return result;
        }
      } catch (Exception error) {
        if (guard.whyLost() == null) {
          throw error;
        }
      }
    }
  }

  private static Guard elected(Lock seat) throws InterruptedException {
    while (true) {
      try {
        return seat.acquire();
      } catch (LockException.Unavailable | LockException.Lost again) {
        Thread.sleep(EVERY.toMillis());
      }
    }
  }

  /** Who leads now; null when nobody does. */
  public Leader leader() {
    Holder holder = lock().forElection().inspect().holder();
    return holder == null ? null
        : new Leader(holder.label(), holder.host(), holder.pid(), holder.language(), holder.firstToken(), holder.heldFor());
  }

  /**
   * Waits until somebody else leads than the one with the token {@code known}, or anybody where that is null; null when nobody leads any
   * more. A reign shorter than the time between two looks, 500 ms, may go unseen.
   */
  public Leader changed(Long known) throws InterruptedException {
    return changed(known, EVERY);
  }

  /**
   * As {@link #changed(Long)}, looking so often: every 1 ms to 24 hours.
   *
   * @throws LockException.InvalidConfig for another time between two looks
   */
  public Leader changed(Long known, Duration every) throws InterruptedException {
    if (Objects.requireNonNull(every, "every").compareTo(SHORTEST) < 0 || every.compareTo(LONGEST) > 0) {
      throw new LockException.InvalidConfig("changed", "every is " + every + "; it must be 1 ms to 24 h");
    }
    while (true) {
      Leader leader = leader();
      if (leader == null ? known != null : known == null || known != leader.token) {
        return leader;
      }
      Thread.sleep(every.toMillis());
    }
  }

  @Override
  public String toString() {
    return "Election[" + name + " on " + client.address() + "]";
  }
}
