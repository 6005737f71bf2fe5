package dev.lockwright;

/** The native library: one function, which takes a request and gives a reply. Numbers stand for what it keeps. */
final class Native {
  /** As its file is called, on every platform. */
  static final String LIBRARY = "lockwright_jvm";

  static {
    Library.load();
  }

  private Native() {}

  /** Loads it from that file, which must be there until this returns. */
  // It loads in the name of the class that calls it.
  @SuppressWarnings("restricted")
  static void load(String file) {
    System.load(file);
  }

  /** The reply to the request that {@code bytes} begins with, which may lie there, too. */
  static byte[] call(byte[] bytes, int length) {
    return call(bytes, length, bytes.length);
  }

  private static native byte[] call(byte[] bytes, int length, int room);
}
