package dev.lockwright;

import java.util.concurrent.atomic.AtomicLong;

/**
 * Somebody who may acquire a reentrant lock again. The calls that wait are those of their thread, which is its own owner; those that
 * return a future belong to no thread, so they name one.
 */
public final class Owner {
  private static final AtomicLong NEXT = new AtomicLong(1);
  /** No object of ours, which would keep our class loader as long as the thread lives. */
  private static final ThreadLocal<Long> OF_THREAD = ThreadLocal.withInitial(NEXT::getAndIncrement);

  /** Who it is for the native library. */
  final long number = NEXT.getAndIncrement();

  /** An owner who holds nothing yet. */
  public Owner() {}

  /** Who the calling thread is. */
  static long ofThread() {
    return OF_THREAD.get();
  }
}
