package dev.lockwright;

import java.util.List;
import java.util.Objects;

/**
 * Ready-made checks for what a lock protects, which refuse a holder that was stopped past its lease. All of them admit the token that was
 * seen last, since a holder may write more than once, and refuse lower ones.
 */
public final class Kit {
  /** The name of a request's header that carries the token. */
  public static final String HEADER = (String) new Request(Verb.KIT).octet(0).call();

  /**
   * For {@code EVAL}, with the key of the value, the key of its highest token (in the same slot) and the arguments token and value: sets
   * both and returns 1, or returns 0 where a higher token was seen.
   */
  public static final String SET_SCRIPT = (String) new Request(Verb.KIT).octet(1).call();

  private Kit() {}

  /** A token and its epoch, which goes before it when two are compared. */
  public record Token(long epoch, long token) implements Comparable<Token> {
    @Override
    public int compareTo(Token other) {
      int epochs = Long.compareUnsigned(epoch, other.epoch);
      return epochs != 0 ? epochs : Long.compareUnsigned(token, other.token);
    }
  }

  /** The token is lower than one that was seen before: whoever shows it has lost the lock. */
  public static final class Stale extends RuntimeException {
    private static final long serialVersionUID = 1;

    Stale(Token token, Token highest) {
      super("the token " + token.token + " is stale: " + highest.token + " was seen already; its holder has lost the lock");
    }
  }

  /** The highest token that something has seen: for whatever keeps its state in memory. Any thread may use it. */
  public static final class Fence {
    private Token highest;

    /** One that has seen none. */
    public Fence() {}

    /** The highest it has seen; null while there is none. */
    public synchronized Token highest() {
      return highest;
    }

    /**
     * Takes note of the token of a guard.
     *
     * @throws Stale when a higher one was seen
     */
    public void admit(Guard guard) {
      admit(tokenOf(guard));
    }

    /** As {@link #admit(Guard)}. */
    public synchronized void admit(Token token) {
      Objects.requireNonNull(token, "token");
      if (highest != null && token.compareTo(highest) < 0) {
        throw new Stale(token, highest);
      }
      highest = token;
    }
  }

  /**
   * A condition for the {@code WHERE} of an {@code UPDATE} that sets {@code column} to the token: rows that a higher token wrote stay as
   * they are. That it changed no row means that the token is stale, or the row is not there.
   *
   * @throws LockException.InvalidConfig for a column or a placeholder that is empty, has more than 1024 bytes or a control character
   */
  public static String sqlCondition(String column, String placeholder) {
    return (String) new Request(Verb.KIT).octet(2).text("kit", "column", column).text("kit", "placeholder", placeholder).call();
  }

  /** As {@link #sqlCondition(String, String)}, with the placeholder {@code ?}. */
  public static String sqlCondition(String column) {
    return sqlCondition(column, "?");
  }

  /**
   * The keys below {@code key}, a lock's name with the address's prefix before it, in a store of keys and revisions: from the first to
   * before the second. A transaction that compares the creation revisions of this range with the token to be <em>not equal</em> finds them
   * so once the lock is lost; what is to be written only while it is held stands in its {@code else}.
   *
   * @throws LockException.InvalidConfig for what is no lock's key: empty, above 1536 bytes, or with a control character
   */
  public static List<String> keyRange(String key) {
    List<Object> range = Handle.list(new Request(Verb.KIT).octet(5).text("kit", "key", key).call());
    return List.of((String) range.get(0), (String) range.get(1));
  }

  /**
   * The number by which PostgreSQL knows the advisory lock of {@code key}, a lock's name with the address's prefix before it: for
   * {@code pg_advisory_xact_lock}, as {@link InTransaction} says it.
   *
   * @throws LockException.InvalidConfig as {@link #keyRange} does
   */
  public static long advisoryKey(String key) {
    return Long.parseLong((String) new Request(Verb.KIT).octet(6).text("kit", "key", key).call());
  }

  private static Token tokenOf(Guard guard) {
    Objects.requireNonNull(guard, "guard");
    return new Token(guard.epoch(), guard.token());
  }

  /** The value of the header. */
  public static String headerValue(Guard guard) {
    return headerValue(tokenOf(guard));
  }

  /** As {@link #headerValue(Guard)}. */
  public static String headerValue(Token token) {
    Objects.requireNonNull(token, "token");
    return (String) new Request(Verb.KIT).octet(3).number(token.epoch).number(token.token).call();
  }

  /** What a header says; null for what is none. What comes without one is to be refused as well. */
  public static Token readHeader(String value) {
    Object read = new Request(Verb.KIT).octet(4).text("kit", "header", value).call();
    List<Object> parts = read == null ? null : Handle.list(read);
    return parts == null ? null : new Token((long) parts.get(0), (long) parts.get(1));
  }
}
