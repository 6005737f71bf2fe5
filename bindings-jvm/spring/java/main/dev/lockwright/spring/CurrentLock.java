package dev.lockwright.spring;

import dev.lockwright.Guard;

/** The lock that the calling method runs under. */
public final class CurrentLock {
  private static final ThreadLocal<Guard> INNERMOST = new ThreadLocal<>();

  private CurrentLock() {}

  /**
   * The guard of the innermost {@link Locked} method that this thread is in: for its fencing token, its loss, or to extend it.
   *
   * @return the guard, which is released when that method returns
   * @throws IllegalStateException outside of such a method, for instance where it was called past its proxy
   */
  public static Guard guard() {
    Guard guard = INNERMOST.get();
    if (guard == null) {
      throw new IllegalStateException("no @Locked method is running in this thread; was it called from its own class?");
    }
    return guard;
  }

  /** Runs a method under {@code guard}. */
  static Object during(Guard guard, Call call) throws Throwable {
    Guard outer = INNERMOST.get();
    INNERMOST.set(guard);
    try {
      return call.proceed();
    } finally {
      if (outer == null) {
        INNERMOST.remove();
      } else {
        INNERMOST.set(outer);
      }
    }
  }

  /** The method that is locked. */
  interface Call {
    Object proceed() throws Throwable;
  }
}
