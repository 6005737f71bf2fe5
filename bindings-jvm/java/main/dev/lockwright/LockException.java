package dev.lockwright;

import java.util.List;
import java.util.Objects;
import java.util.stream.Collectors;

/**
 * Whatever goes wrong with a lock. {@link #code()} is the same in every language; the message says what can be done. Each code has a
 * class of its own, for {@code catch}.
 */
public class LockException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final String code;
  private final boolean retryable;
  private final String operation;
  private final String lock;
  private final String store;

  private LockException(String code, boolean retryable, Reply.Failure of) {
    super(of.message());
    this.code = code;
    this.retryable = retryable;
    operation = of.operation();
    lock = of.lock();
    store = of.store();
  }

  /** What went wrong, such as {@code timeout}; {@code docs/errors.md} has all. */
  public String code() {
    return code;
  }

  /** Whether the same call may succeed later without a change to the program or its settings. */
  public boolean retryable() {
    return retryable;
  }

  /** What was being done, such as {@code acquire}. */
  public String operation() {
    return operation;
  }

  /** The lock's name; null where it concerns none. */
  public String lock() {
    return lock;
  }

  /** The store's address without credentials; null where it concerns none. */
  public String store() {
    return store;
  }

  /** The thread was interrupted. */
  static LockException cancelled(String lock, String store) {
    return made("cancelled", "acquire", lock, store, "the thread was interrupted while it waited");
  }

  /** The same while it waited for these, of which one or another was waited for. */
  static LockException cancelled(List<String> locks, String store) {
    if (locks.size() == 1) {
      return cancelled(locks.get(0), store);
    }
    String names = locks.stream().map(lock -> '"' + lock + '"').collect(Collectors.joining(", "));
    String message = "cancelled: acquire locks " + names + " on " + store + ": the thread was interrupted while it waited";
    return of(new Reply.Failure("cancelled", message, "acquire", null, store));
  }

  /** It was lost before it was given back. */
  static LockException lost(String lock, String store, LossReason why) {
    return made("lost", "release", lock, store, "the lock was lost while it was held: " + why.code());
  }

  /** One that this side finds, in the words of the others. */
  static LockException made(String code, String operation, String lock, String store, String what) {
    return of(failure(code, operation, lock, store, what));
  }

  /** The same, to be thrown later. */
  static Reply.Failure failure(String code, String operation, String lock, String store, String what) {
    String message = code + ": " + operation + " lock \"" + lock + "\" on " + store + ": " + what;
    return new Reply.Failure(code, message, operation, lock, store);
  }

  static LockException of(Reply.Failure failure) {
    return switch (Objects.requireNonNullElse(failure.code(), "internal")) {
      case "timeout" -> new Timeout(failure);
      case "not_owned" -> new NotOwned(failure);
      case "lost" -> new Lost(failure);
      case "cancelled" -> new Cancelled(failure);
      case "unavailable" -> new Unavailable(failure);
      case "quorum" -> new QuorumFailed(failure);
      case "invalid_config" -> new InvalidConfig(failure);
      case "unsupported" -> new Unsupported(failure);
      case "foreign_layout" -> new ForeignLayout(failure);
      case "deadlock" -> new Deadlock(failure);
      case "forked" -> new Forked(failure);
      case "closed" -> new Closed(failure);
      case "auth" -> new AuthFailed(failure);
      case "protocol" -> new ProtocolError(failure);
      default -> new Internal(failure);
    };
  }

  /** Somebody else held the lock for the whole time. */
  public static final class Timeout extends LockException {
    private static final long serialVersionUID = 1;

    Timeout(Reply.Failure failure) {
      super("timeout", true, failure);
    }
  }

  /** What was to be released or used is not held. */
  public static final class NotOwned extends LockException {
    private static final long serialVersionUID = 1;

    NotOwned(Reply.Failure failure) {
      super("not_owned", false, failure);
    }

    NotOwned(String operation, String message) {
      this(new Reply.Failure("not_owned", "not_owned: " + operation + ": " + message, operation, null, null));
    }
  }

  /** The lease ended while the lock was held: somebody else may have been in the critical section, too. */
  public static final class Lost extends LockException {
    private static final long serialVersionUID = 1;

    Lost(Reply.Failure failure) {
      super("lost", true, failure);
    }
  }

  /** The thread was interrupted while it waited; its interrupt status is set again. */
  public static final class Cancelled extends LockException {
    private static final long serialVersionUID = 1;

    Cancelled(Reply.Failure failure) {
      super("cancelled", false, failure);
    }
  }

  /** The store did not answer within {@code storeTimeout}. */
  public static final class Unavailable extends LockException {
    private static final long serialVersionUID = 1;

    Unavailable(Reply.Failure failure) {
      super("unavailable", true, failure);
    }
  }

  /** Too few servers of a quorum granted the lock. */
  public static final class QuorumFailed extends LockException {
    private static final long serialVersionUID = 1;

    QuorumFailed(Reply.Failure failure) {
      super("quorum", true, failure);
    }
  }

  /** The address, an option or an argument is wrong; nothing was sent. */
  public static final class InvalidConfig extends LockException {
    private static final long serialVersionUID = 1;

    InvalidConfig(Reply.Failure failure) {
      super("invalid_config", false, failure);
    }

    InvalidConfig(String operation, String message) {
      this(new Reply.Failure("invalid_config", "invalid_config: " + operation + ": " + message, operation, null, null));
    }
  }

  /** The store or layout cannot do what was asked. */
  public static final class Unsupported extends LockException {
    private static final long serialVersionUID = 1;

    Unsupported(Reply.Failure failure) {
      super("unsupported", false, failure);
    }
  }

  /** The store holds something else under the lock's name. */
  public static final class ForeignLayout extends LockException {
    private static final long serialVersionUID = 1;

    ForeignLayout(Reply.Failure failure) {
      super("foreign_layout", false, failure);
    }
  }

  /** Waiting would never end. */
  public static final class Deadlock extends LockException {
    private static final long serialVersionUID = 1;

    Deadlock(Reply.Failure failure) {
      super("deadlock", false, failure);
    }
  }

  /** A guard was used in a copy of its process. */
  public static final class Forked extends LockException {
    private static final long serialVersionUID = 1;

    Forked(Reply.Failure failure) {
      super("forked", false, failure);
    }
  }

  /** The client was closed. */
  public static final class Closed extends LockException {
    private static final long serialVersionUID = 1;

    Closed(Reply.Failure failure) {
      super("closed", false, failure);
    }
  }

  /** The store refused the credentials, or they lack a right. */
  public static final class AuthFailed extends LockException {
    private static final long serialVersionUID = 1;

    AuthFailed(Reply.Failure failure) {
      super("auth", false, failure);
    }
  }

  /** What answers at the address does not speak the store's protocol. */
  public static final class ProtocolError extends LockException {
    private static final long serialVersionUID = 1;

    ProtocolError(Reply.Failure failure) {
      super("protocol", false, failure);
    }
  }

  /** A bug in this library, or the operating system refused. */
  public static final class Internal extends LockException {
    private static final long serialVersionUID = 1;

    Internal(Reply.Failure failure) {
      super("internal", false, failure);
    }
  }
}
