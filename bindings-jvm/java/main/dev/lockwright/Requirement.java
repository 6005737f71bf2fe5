package dev.lockwright;

import java.util.Locale;

/** What a program may insist on, by {@link Client#require}. */
public enum Requirement {
  /** There are read/write locks. */
  RWLOCK,
  /** There are semaphores. */
  SEMAPHORE,
  /** There are latches. Nobody holds one, so what is promised of holders says nothing of it. */
  LATCH,
  /** There are barriers, of which the same is true. */
  BARRIER,
  /** A fencing token that rises. */
  FENCED,
  /** First come, first served. */
  FAIR,
  /** {@code reentrant} can be had. */
  REENTRANT,
  /** Other processes see the locks. */
  SHARED,
  /** Waiters are pushed to. */
  PUSH,
  /** Two holders are impossible even when the store fails over. */
  FAILOVER_SAFE;

  String option() {
    return this == FAILOVER_SAFE ? "failoverSafe" : name().toLowerCase(Locale.ROOT);
  }
}
