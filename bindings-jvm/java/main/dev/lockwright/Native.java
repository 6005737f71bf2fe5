package dev.lockwright;

/** The native library: one function, which takes a request and gives a reply. Numbers stand for what it keeps. */
final class Native {
  static {
    Library.load();
  }

  private Native() {}

  static native byte[] call(byte[] request);
}
