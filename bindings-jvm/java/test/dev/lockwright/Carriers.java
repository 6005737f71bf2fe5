package dev.lockwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.PlatformManagedObject;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/** The threads that virtual threads run on, as the JDK counts them from version 24 on; from its making on it notes each wait that pins one. */
final class Carriers implements AutoCloseable {
  private final Recording recording = new Recording();

  Carriers() {
    recording.enable("jdk.VirtualThreadPinned").withoutThreshold().withStackTrace();
    recording.start();
  }

  private static int figure(String name) throws ReflectiveOperationException {
    Class<? extends PlatformManagedObject> scheduler =
        Class.forName("jdk.management.VirtualThreadSchedulerMXBean").asSubclass(PlatformManagedObject.class);
    return (int) scheduler.getMethod(name).invoke(ManagementFactory.getPlatformMXBean(scheduler));
  }

  /** Until no virtual thread has one, within 20 s; then that there are no more of them than there are to be. */
  void awaitIdle() throws ReflectiveOperationException {
    if (Runtime.version().feature() < 24) {
      return;
    }
    long began = System.nanoTime();
    while (figure("getMountedVirtualThreadCount") > 0) {
      assertTrue(System.nanoTime() - began < 20_000_000_000L, "carriers are busy: " + figure("getMountedVirtualThreadCount"));
      LockSupport.parkNanos(1_000_000);
    }
    int carriers = figure("getPoolSize");
    assertTrue(carriers <= figure("getParallelism"), carriers + " carriers");
  }

  /** That no wait pinned one. */
  @Override
  public void close() throws IOException {
    Path file = Files.createTempFile("lockwright", ".jfr");
    try (recording) {
      recording.dump(file);
      List<RecordedEvent> pinned = RecordingFile.readAllEvents(file);
      assertEquals(List.of(), pinned);
    } finally {
      Files.delete(file);
    }
  }
}
