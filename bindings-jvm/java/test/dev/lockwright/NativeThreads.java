package dev.lockwright;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.locks.LockSupport;

/** The threads of this process that are the library's by their names, as the operating system has them. */
final class NativeThreads {
  private NativeThreads() {}

  static long count() throws IOException {
    try (var tasks = Files.list(Path.of("/proc/self/task"))) {
      return tasks.map(NativeThreads::name).filter(name -> name.startsWith("lockwright")).count();
    }
  }

  private static String name(Path task) {
    try {
      return Files.readString(task.resolve("comm"));
    } catch (IOException ended) {
      return "";
    }
  }

  /** Until there are so many, within 20 s. */
  static void await(long count) throws IOException {
    long began = System.nanoTime();
    while (count() != count && System.nanoTime() - began < 20_000_000_000L) {
      LockSupport.parkNanos(1_000_000);
    }
    assertEquals(count, count());
  }
}
