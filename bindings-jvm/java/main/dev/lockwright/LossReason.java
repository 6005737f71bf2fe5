package dev.lockwright;

import java.util.Locale;

/** Why a lock was lost while it was held. */
public enum LossReason {
  /** Its lease ended before the store answered a renewal. */
  EXPIRED,
  /** {@code maxHold} was reached, so it was not renewed any more. */
  MAX_HOLD,
  /** Its guard was forgotten without a release, so it was not renewed any more. */
  ABANDONED,
  /** Its ttl ended, and renewal is off. */
  NOT_RENEWED,
  /** The store says that it is not ours: it was emptied, restarted, failed over, or somebody took the lock. */
  GONE,
  /** An operator broke it. */
  BROKEN,
  /** The client was closed. */
  CLOSED;

  /** The word for it that every language has, such as {@code max_hold}. */
  public String code() {
    return name().toLowerCase(Locale.ROOT);
  }

  static LossReason of(String code) {
    return code == null ? null : valueOf(code.toUpperCase(Locale.ROOT));
  }
}
