package dev.lockwright;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

/** What Java 17 does not know of threads. */
final class Threads {
  private static final MethodHandle IS_VIRTUAL = isVirtualOf();

  private Threads() {}

  private static MethodHandle isVirtualOf() {
    try {
      return MethodHandles.lookup().findVirtual(Thread.class, "isVirtual", MethodType.methodType(boolean.class));
    } catch (ReflectiveOperationException old) {
      return null;
    }
  }

  /** Whether the calling thread is a virtual one, which must not block its carrier. */
  static boolean isVirtual() {
    try {
      return IS_VIRTUAL != null && (boolean) IS_VIRTUAL.invokeExact(Thread.currentThread());
    } catch (Throwable impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
