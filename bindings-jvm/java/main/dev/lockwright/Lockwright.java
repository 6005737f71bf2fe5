package dev.lockwright;

import java.util.Objects;

/**
 * Where it begins.
 *
 * <pre>{@code
 * try (Client client = Lockwright.connect();                     // or "redis://localhost"
 *     Guard guard = client.lock("orders:42").acquire()) {        // waits; renewed until the block ends
 *   System.out.println("fencing token " + guard.token());
 * }
 * }</pre>
 */
public final class Lockwright {
  private Lockwright() {}

  /**
   * A client of the place that {@code LOCKWRIGHT_URL} names, else of a file of this user's, which all of the user's processes on this
   * host share. Nothing is sent before the first use.
   *
   * @throws LockException.InvalidConfig for an address that cannot be
   */
  public static Client connect() {
    return connect(null, new ConnectOptions());
  }

  /** As {@link #connect()}, of the place that {@code url} names, such as {@code redis://localhost}. */
  public static Client connect(String url) {
    return connect(url, new ConnectOptions());
  }

  /** As {@link #connect(String)}; {@code url} may be null, as in {@link #connect()}. */
  public static Client connect(String url, ConnectOptions options) {
    return Client.open(url, Objects.requireNonNull(options, "options"));
  }

  /**
   * Says that this process goes on from a snapshot or a checkpoint of itself, from which others may go on, too; to be called once, before
   * anything else. Guards made before are lost, and using one is {@link LockException.Forked}: a copy of this process may hold their
   * locks. Nothing is sent for them, so their leases end. Clients go on, over connections of their own.
   */
  public static void restored() {
    new Request(Verb.RESTORED).call();
  }

  /** The version of this library. */
  public static String version() {
    return (String) new Request(Verb.VERSION).call();
  }
}
