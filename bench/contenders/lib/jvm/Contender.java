import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.IntStream;

/** One contender of the JVM, which uses clients {@code C} of a library, and the protocol of {@code bench/README.md}. */
abstract class Contender<C> {
  /** How its client is made and closed, the commands that it sends, and the versions of what it stands on. */
  record Library<C>(Function<String, C> dial, Consumer<C> close, List<String> requests, Map<String, String> versions) {}

  private final String name;
  private final String role;
  private final List<String> rows;
  private final Library<C> library;
  private C client;

  Contender(String name, String role, List<String> rows, Library<C> library) {
    this.name = name;
    this.role = role;
    this.rows = rows;
    this.library = library;
  }

  final C client() {
    return client;
  }

  /** Of a library under that name: the version in the name of its jar. */
  static Map<String, String> version(String name, Class<?> of) {
    String jar = of.getProtectionDomain().getCodeSource().getLocation().getPath();
    return Map.of(name, jar.replaceFirst(".*-(\\d.*)\\.jar", "$1"));
  }

  /** Nanoseconds that each of so many acquisitions and releases of a lock took that nobody else wants. */
  abstract List<Long> pairs(int count) throws Exception;

  /** A crowd of one task for each key, that can begin at once. */
  abstract Crowd crowd(List<String> keys) throws Exception;

  /** Acquires a lock as soon as it can, and says so. */
  abstract void cold() throws Exception;

  /** Tasks that acquire and release again and again. */
  interface Crowd {
    /** Has them begin. */
    void go();

    /** Returns once none goes on any more. */
    void join() throws Exception;
  }

  /** How often a task had the lock before the stop, and how long each acquisition took. */
  static final class Tally {
    long acquired;
    final List<Long> ns = new ArrayList<>();

    void took(long began, boolean counts) {
      ns.add(System.nanoTime() - began);
      acquired += counts ? 1 : 0;
    }
  }

  private volatile boolean stopped;
  private List<Tally> tallies;

  final BooleanSupplier goesOn = () -> !stopped;

  final Tally tally(int task) {
    return tallies.get(task);
  }

  /** Does what the runner says until it says no more. */
  static void main(String[] words, Contender<?>... contenders) throws Exception {
    if (words[0].equals("list")) {
      for (Contender<?> contender : contenders) {
        contender.offer();
      }
      return;
    }
    Contender<?> chosen = List.of(contenders).stream().filter(contender -> contender.name.equals(words[1])).findAny().orElseThrow();
    chosen.play(words[0], words[2]);
    // Some libraries' threads would keep it alive.
    Runtime.getRuntime().halt(0);
  }

  static void say(Object line) {
    System.out.println(line instanceof String text ? text : new Gson().toJson(line));
  }

  private void offer() {
    Map<String, String> versions = new LinkedHashMap<>(Map.of("Java", Runtime.version().toString()));
    versions.putAll(library.versions());
    say(Map.of("name", name, "language", "Java", "role", role, "rows", rows, "requests", library.requests(), "versions", versions));
  }

  private void play(String verb, String url) throws Exception {
    client = library.dial().apply(url);
    if (verb.equals("cold")) {
      cold();
    } else {
      work();
    }
    library.close().accept(client);
  }

  private void work() throws Exception {
    say("ready");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null; ) {
      String[] words = line.split(" ");
      switch (words[0]) {
        case "pairs" -> say(pairs(Integer.parseInt(words[1])));
        case "crowd" -> contend(keys(Integer.parseInt(words[1]), words[2].equals("own")), in);
        default -> throw new IllegalArgumentException("was told " + line);
      }
    }
  }

  private static List<String> keys(int tasks, boolean own) {
    String process = "bench:" + ProcessHandle.current().pid() + ":";
    return IntStream.range(0, tasks).mapToObj(task -> own ? process + task : "bench:one").toList();
  }

  private void contend(List<String> keys, BufferedReader in) throws Exception {
    // Connections are dialled and scripts loaded.
    pairs(1);
    stopped = false;
    tallies = keys.stream().map(key -> new Tally()).toList();
    Crowd crowd = crowd(keys);
    say("ready");
    expect(in, "go");
    crowd.go();
    expect(in, "stop");
    stopped = true;
    crowd.join();
    say(tallies);
  }

  private static void expect(BufferedReader in, String wanted) throws IOException {
    String line = in.readLine();
    if (!wanted.equals(line)) {
      throw new IllegalArgumentException("was told " + line + " in place of " + wanted);
    }
  }
}
