package dev.lockwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** How a JVM begins and ends with this library. */
class ProcessTest {
  /** Holds, waits for and renews locks, and ends as it was told. */
  static final class Program {
    public static void main(String[] arguments) throws Exception {
      Client client = Lockwright.connect(arguments[0]);
      Guard held = client.lock("held").ttl("10s").acquire();
      held.onLost(why -> {});
      client.lock("held").acquireAsync();
      Thread waits = new Thread(() -> client.lock("held").acquire());
      waits.setDaemon(true);
      waits.start();
      Places.awaitWaiters(client, 2);
      System.out.println("held");
      switch (arguments[1]) {
        case "shutdown" -> shutDown(client);
        case "restored" -> goOn(client, held);
        case "exit" -> System.exit(0);
        case "halt" -> Runtime.getRuntime().halt(0);
        case "throw" -> throw new IllegalStateException("uncaught");
        default -> { }
      }
    }
  }

  /** Threads of a pool hold a lock and wait for one when the pool is shut down. */
  private static void shutDown(Client client) throws InterruptedException {
    ExecutorService pool = Executors.newFixedThreadPool(2);
    pool.execute(() -> {
      client.reentrantLock("pooled").lock();
      try {
        client.reentrantLock("held").lockInterruptibly();
      } catch (InterruptedException shutDown) {
        // Its lock goes with the thread.
      }
    });
    pool.execute(() -> client.lock("held").acquire());
    Places.awaitWaiters(client, 4);
    pool.shutdownNow();
    if (!pool.awaitTermination(10, TimeUnit.SECONDS)) {
      throw new IllegalStateException("a thread of the pool waits for ever");
    }
  }

  /** Believes no guard made before it was restored, and takes locks all the same. */
  private static void goOn(Client client, Guard before) {
    CompletableFuture<LossReason> lost = before.lost();
    CompletableFuture<Guard> waiting = client.lock("held").acquireAsync();
    Lockwright.restored();
    check(!before.isHeld() && lost.join() == LossReason.CLOSED);
    check(waiting.handle((guard, error) -> error instanceof LockException.Forked).join());
    try {
      before.release();
      check(false);
    } catch (LockException.Forked copied) {
      check(client.lock("held").tryAcquire() == null);
    }
    client.lock("other").acquireAsync().join().release();
  }

  private static void check(boolean holds) {
    if (!holds) {
      throw new IllegalStateException("it does not hold");
    }
  }

  /** Takes locks and gives them back, so often, and says what that left: native memory in kB, open files. */
  static final class Pairs {
    public static void main(String[] arguments) throws Exception {
      int pairs = Integer.parseInt(arguments[1]);
      try (Client client = Lockwright.connect(arguments[0])) {
        play(client, Math.min(pairs, 50_000));
        long memory = memory();
        long files = files();
        play(client, pairs);
        System.out.println("grew by " + (memory() - memory) + " kB, " + (files() - files) + " files");
      }
    }

    private static void play(Client client, int pairs) {
      for (int i = 0; i < pairs; i++) {
        Guard guard = i % 10 != 0 ? client.lock("x" + i % 100).acquire() : client.lock("x" + i % 100).acquireAsync().join();
        guard.onLost(why -> {});
        guard.release();
      }
    }

    /** Once nothing is waiting for the collector any more: then it goes down no further. */
    private static long memory() throws Exception {
      long least = Long.MAX_VALUE;
      for (int stays = 0; stays < 3; stays++) {
        System.gc();
        Thread.yield();
        long now = Files.readAllLines(Path.of("/proc/self/status")).stream().filter(line -> line.startsWith("VmRSS:"))
            .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", ""))).findFirst().orElseThrow();
        stays = now < least ? 0 : stays;
        least = Math.min(least, now);
      }
      return least;
    }

    private static long files() throws Exception {
      try (var open = Files.list(Path.of("/proc/self/fd"))) {
        return open.count();
      }
    }
  }

  @Test
  void nothingIsKeptOfLocksThatWereGivenBack() throws Exception {
    List<String> options = new ArrayList<>(classPath());
    // What Java keeps would end it.
    options.addAll(List.of("-Xmx64m", "-Xms64m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC"));
    // A million with `-Ddev.lockwright.pairs=1000000`.
    int pairs = Integer.getInteger("dev.lockwright.pairs", 2_000);
    Ended ended = run(60 + pairs / 2_000, options, Pairs.class.getName(), Places.memory(), Integer.toString(pairs));
    Matcher grew = Pattern.compile("grew by (-?\\d+) kB, 0 files").matcher(ended.said);
    assertTrue(ended.status == 0 && grew.find(), ended.said);
    assertTrue(Long.parseLong(grew.group(1)) < 24_000, ended.said);
  }

  private record Ended(int status, String said) {}

  private static Ended run(List<String> options, String... command) throws Exception {
    return run(60, options, command);
  }

  private static Ended run(long seconds, List<String> options, String... command) throws Exception {
    List<String> all = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
    all.addAll(options);
    all.addAll(List.of(command));
    Path said = Files.createTempFile("lockwright", ".out");
    Process process = new ProcessBuilder(all).redirectErrorStream(true).redirectOutput(said.toFile()).start();
    boolean ended = process.waitFor(seconds, TimeUnit.SECONDS);
    process.destroyForcibly().waitFor();
    String text = Files.readString(said, StandardCharsets.UTF_8);
    Files.delete(said);
    assertTrue(ended, "it did not end: " + text);
    return new Ended(process.exitValue(), text);
  }

  private static List<String> classPath() {
    return List.of("-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"return", "exit", "halt", "throw", "shutdown", "restored"})
  void aProgramEndsWhateverItHolds(String how) throws Exception {
    // All of them with `-Ddev.lockwright.runs=200`.
    for (int runs = Integer.getInteger("dev.lockwright.runs", 2); runs > 0; runs--) {
      Ended ended = run(classPath(), Program.class.getName(), Places.shared(), how);
      assertEquals(how.equals("throw") ? 1 : 0, ended.status, ended.said);
      assertTrue(ended.said.contains("held"), ended.said);
    }
  }

  @Test
  void nothingOfTheLibraryIsLeftBehind(@TempDir Path folder) throws Exception {
    List<String> options = new ArrayList<>(classPath());
    options.add("-Djava.io.tmpdir=" + folder);
    assertEquals(0, run(options, Program.class.getName(), Places.memory(), "return").status);
    try (var left = Files.list(folder)) {
      assertEquals(List.of(), left.toList());
    }
  }

  @Test
  void whatCannotBeLoadedIsExplained() throws Exception {
    List<String> options = new ArrayList<>(classPath());
    options.add("-Ddev.lockwright.library=/nowhere.so");
    Ended ended = run(options, Program.class.getName(), Places.memory(), "return");
    assertEquals(1, ended.status);
    assertTrue(ended.said.contains("-Ddev.lockwright.library names: ") && ended.said.contains("/nowhere.so"), ended.said);
  }

  @Test
  void theFlagForNativeAccessIsNamed() throws Exception {
    if (Runtime.version().feature() < 24) {
      return;
    }
    List<String> options = new ArrayList<>(classPath());
    options.add("--illegal-native-access=deny");
    Ended denied = run(options, Program.class.getName(), Places.memory(), "return");
    assertEquals(1, denied.status);
    assertTrue(denied.said.contains("--enable-native-access=ALL-UNNAMED"), denied.said);
    options.add("--enable-native-access=ALL-UNNAMED");
    assertEquals(0, run(options, Program.class.getName(), Places.memory(), "return").status);
  }

  /** The class path's folder that has our classes. */
  private static URL classes() {
    return Lockwright.class.getProtectionDomain().getCodeSource().getLocation();
  }

  @Test
  void itIsAModule(@TempDir Path folder) throws Exception {
    List<String> options = new ArrayList<>(List.of("-p", new File(classes().toURI()).toString(), "--add-modules", "dev.lockwright"));
    if (Runtime.version().feature() >= 24) {
      options.add("--illegal-native-access=deny");
      options.add("--enable-native-access=dev.lockwright");
    }
    Path program = folder.resolve("Program.java");
    Files.writeString(program, """
        public class Program {
          public static void main(String[] arguments) {
            try (var client = dev.lockwright.Lockwright.connect("memory://module")) {
              System.out.println(client.getClass().getModule());
            }
          }
        }
        """);
    Ended ended = run(options, program.toString());
    assertEquals("module dev.lockwright", ended.said.strip());
  }

  @Test
  void eachClassLoaderHasItsOwnAndIsCollected() throws Exception {
    try (Client client = Lockwright.connect(Places.memory())) {
      client.lock("x").acquire().release();
      long threads = NativeThreads.count();
      playCopies();
      NativeThreads.await(threads);
      client.lock("x").acquire().release();
    }
  }

  private static void playCopies() throws Exception {
    Copy first = new Copy();
    Copy second = new Copy();
    first.takesALock();
    second.takesALock();
    WeakReference<ClassLoader> ended = first.close();
    first = null;
    Places.awaitCollected(ended);
    // What the first left running does no harm, neither to another copy nor to this one.
    second.takesALock();
    ended = second.close();
    second = null;
    Places.awaitCollected(ended);
  }

  /** The library once more, in a class loader of its own, with a client. */
  private static final class Copy {
    private final URLClassLoader loader = new URLClassLoader(new URL[] {classes()}, ClassLoader.getPlatformClassLoader());
    private final Object client;

    Copy() throws Exception {
      client = loader.loadClass("dev.lockwright.Lockwright").getMethod("connect", String.class).invoke(null, Places.memory());
    }

    private static Object call(Object on, String method) throws Exception {
      return on.getClass().getMethod(method).invoke(on);
    }

    void takesALock() throws Exception {
      Object lock = client.getClass().getMethod("lock", String.class).invoke(client, "x");
      call(call(lock, "acquire"), "release");
    }

    WeakReference<ClassLoader> close() throws Exception {
      call(client, "close");
      return new WeakReference<>(loader);
    }
  }
}
