package dev.lockwright;

import java.util.concurrent.atomic.AtomicLong;

/**
 * Somebody who may acquire a reentrant lock again. The calls that wait are those of their thread, which is its own owner; those that
 * return a future belong to no thread, so they name one.
 */
public final class Owner {
  private static final AtomicLong NEXT = new AtomicLong(1);
  private static final ThreadLocal<Owner> OF_THREAD = ThreadLocal.withInitial(Owner::new);

  /** Who it is for the native library. */
  final long number = NEXT.getAndIncrement();

  /** An owner who holds nothing yet. */
  public Owner() {}

  /** The calling thread. */
  static Owner current() {
    return OF_THREAD.get();
  }
}
