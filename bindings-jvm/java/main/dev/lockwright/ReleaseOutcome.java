package dev.lockwright;

import java.util.Locale;

/** What the store found when a lock was given back. */
public enum ReleaseOutcome {
  /** It was held, and is free. */
  RELEASED,
  /** Its owner still holds it: it acquired it more than once. */
  KEPT,
  /** Its lease had ended before. */
  EXPIRED,
  /** Somebody else held it. */
  STOLEN,
  /** The store did not say; the lock is free when its lease ends. */
  UNKNOWN;

  /** The word for it that every language has. */
  public String code() {
    return name().toLowerCase(Locale.ROOT);
  }

  static ReleaseOutcome of(String code) {
    return valueOf(code.toUpperCase(Locale.ROOT));
  }
}
