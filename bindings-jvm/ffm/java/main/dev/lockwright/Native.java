package dev.lockwright;

import dev.lockwright.uniffi.LockwrightUniffi;
import java.util.Arrays;

/** The native library: one function, which takes a request and gives a reply. Numbers stand for what it keeps. */
final class Native {
  /** As its file is called, on every platform. */
  static final String LIBRARY = "lockwright_uniffi";

  /** By this property the generated classes are told of the file. */
  private static final String OVERRIDE = "uniffi.component." + LIBRARY + ".libraryOverride";

  static {
    Library.load();
  }

  private Native() {}

  /** Loads it from that file, which must be there until this returns. */
  static void load(String file) {
    // Whether it can be loaded is found here: the generated classes have one attempt, and this one counts for them, too.
    System.load(file);
    // Class loaders, each with a file of its own, share the property.
    synchronized (Runtime.getRuntime()) {
      System.setProperty(OVERRIDE, file);
      try {
        call(new byte[0], 0);
      } catch (ExceptionInInitializerError error) {
        throw new UnsatisfiedLinkError(error.getCause().getMessage());
      } finally {
        System.clearProperty(OVERRIDE);
      }
    }
  }

  /** The reply to the request that {@code bytes} begins with. */
  static byte[] call(byte[] bytes, int length) {
    return LockwrightUniffi.call(Arrays.copyOf(bytes, length));
  }
}
