import com.google.gson.Gson;
import dev.lockwright.Client;
import dev.lockwright.ConnectOptions;
import dev.lockwright.Guard;
import dev.lockwright.Lockwright;
import dev.lockwright.Metrics;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** Very many locks, held and renewed by one process; times in seconds, where nothing else is said. */
final class ManyLocks {
  /** Which would show each lock that closing the client gives back. */
  private static final Logger LOGGER = Logger.getLogger("dev.lockwright");

  private ManyLocks() {}

  /** Says what it took, as one JSON object. */
  static void hold(String url, int locks, Duration ttl, long seconds, int pairs) throws Exception {
    LOGGER.setLevel(Level.OFF);
    ConnectOptions options = new ConnectOptions().prefix("bench:s11:" + ProcessHandle.current().pid() + ":");
    Map<String, Object> seen = new LinkedHashMap<>(Map.of("locks", locks));
    try (Client client = Lockwright.connect(url, options); Guard first = client.lock("first").ttl(ttl).acquire()) {
      seen.put("pair_us_before", pair(client, pairs));
      seen.put("idle_kib", memory());
      long began = System.nanoTime();
      List<Guard> held = IntStream.range(0, locks).mapToObj(i -> client.lock("%06d".formatted(i)).ttl(ttl).acquire()).toList();
      seen.put("acquire_us_a_lock", (System.nanoTime() - began) / 1e3 / locks);
      // By then every lock was renewed at least once, and renewals have found their ticks.
      Thread.sleep(ttl.toMillis() * 2 / 3);
      seen.put("held_kib", memory());
      steady(client, seconds, seen);
      seen.put("pair_us_held", pair(client, pairs));
      seen.put("lost", client.metrics().lost().values().stream().mapToLong(Long::longValue).sum());
      seen.put("threads", ours());
      if (!held.stream().allMatch(Guard::isHeld)) {
        throw new IllegalStateException("not all are held");
      }
    }
    System.out.println(new Gson().toJson(seen));
  }

  private static void steady(Client client, long seconds, Map<String, Object> seen) throws Exception {
    Metrics before = client.metrics();
    double cpu = cpu();
    long began = System.nanoTime();
    Thread.sleep(seconds * 1000);
    double used = cpu() - cpu;
    double elapsed = (System.nanoTime() - began) / 1e9;
    Metrics after = client.metrics();
    long renewals = after.renewals() - before.renewals();
    long requests = after.roundTrips() - before.roundTrips();
    seen.put("cpu_a_minute", used / elapsed * 60);
    seen.put("renewals", renewals);
    seen.put("round_trips", requests);
    seen.put("locks_a_request", renewals / (double) Math.max(1, requests));
  }

  /** The median time of a pair of one more lock, in microseconds. */
  private static double pair(Client client, int pairs) {
    long[] took = new long[pairs];
    for (int i = 0; i < pairs; i++) {
      long began = System.nanoTime();
      client.lock("pair").acquire().release();
      took[i] = System.nanoTime() - began;
    }
    Arrays.sort(took);
    return took[pairs / 2] / 1e3;
  }

  /** KiB of the process, once what nobody needs is collected. */
  private static long memory() throws IOException {
    System.gc();
    String line = Files.readAllLines(Path.of("/proc/self/status")).stream().filter(text -> text.startsWith("VmRSS:")).findAny().orElseThrow();
    return Long.parseLong(line.replaceAll("\\D", ""));
  }

  private static List<Path> tasks() throws IOException {
    try (Stream<Path> tasks = Files.list(Path.of("/proc/self/task"))) {
      return tasks.toList();
    }
  }

  /** What a file of a thread says; nothing where that has ended. */
  private static String read(Path task, String file) {
    try {
      return Files.readString(task.resolve(file));
    } catch (UncheckedIOException | IOException ended) {
      return "";
    }
  }

  /** The threads that are named after the library. */
  private static long ours() throws IOException {
    return tasks().stream().filter(task -> read(task, "comm").startsWith("lockwright")).count();
  }

  /** Seconds of CPU that the threads there are used so far. */
  private static double cpu() throws IOException {
    return tasks().stream().map(task -> read(task, "schedstat").split(" ")[0]).filter(nanos -> !nanos.isEmpty())
        .mapToLong(Long::parseLong).sum() / 1e9;
  }
}
