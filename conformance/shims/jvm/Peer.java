import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * A library for the JVM as a peer: obeys those commands of a shim that such a library can obey. {@code conformance/README.md} says
 * what they are. Where its locks have no token, 0 stands for it.
 */
abstract class Peer {
  static final double TTL = 30;

  private static final Gson GSON = new GsonBuilder().serializeNulls().serializeSpecialFloatingPointValues().create();
  private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
  /** How far the clock that the logs are written by is ahead of this machine's; they differ by the time spent asleep. */
  private static final long AHEAD = ahead();

  private final Map<String, Held> held = new ConcurrentHashMap<>();
  private final InHand running = new InHand();

  /** One hold, and until when it lasts. A lock of these libraries belongs to a thread, so each has one. */
  abstract static class Held {
    final ExecutorService thread = Executors.newSingleThreadExecutor(Peer::daemon);
    volatile long until;
    /** Its fencing token, and how much of what several may hold. */
    volatile long token;
    volatile long units = 1;

    double remaining() {
      return Math.max(0, (until - now()) / 1e9);
    }

    /** Whether it was held when it was given back. */
    abstract boolean release();

    abstract boolean isHeld();

    /** Fails with {@code lost} when it is not held any more. */
    abstract void extend(double ttl) throws Failed;

    /** Waits until it is asked back. */
    void awaitRequest() throws Exception {
      throw new Failed("unsupported", "its library has no such message");
    }
  }

  static final class Failed extends Exception {
    final String code;

    Failed(String code, String message) {
      super(message);
      this.code = code;
    }
  }

  /** What holder cards would say. */
  abstract String language();

  abstract void open(String client, String uri) throws Exception;

  /** A hold that is taken in its own thread; null when the lock cannot be had within that time, which is endless below zero. */
  abstract Held acquire(JsonObject command, double timeout) throws Exception;

  /** Closes all clients. */
  abstract void close();

  /** Frees the lock, whoever holds it. */
  boolean force(JsonObject command) throws Exception {
    throw new Failed("unsupported", language() + " cannot do that");
  }

  /** Asks whoever holds the lock to give it back. */
  boolean askBack(JsonObject command) throws Exception {
    throw new Failed("unsupported", language() + " cannot do that");
  }

  /** One line at a time, whoever says it. */
  static void say(Object line) {
    OUT.println(GSON.toJson(line));
  }

  static Thread daemon(Runnable work) {
    Thread thread = new Thread(work);
    thread.setDaemon(true);
    return thread;
  }

  static long now() {
    return System.nanoTime() + AHEAD;
  }

  private static long ahead() {
    try {
      long before = System.nanoTime();
      String text = Files.readString(Path.of("/proc/uptime")).split(" ")[0];
      long after = System.nanoTime();
      long uptime = (long) (Double.parseDouble(text) * 1e9);
      // The file is exact to 10 ms only, and on a busy machine reading it takes any time.
      boolean isTheSame = uptime > before - 20_000_000 && uptime < after + 20_000_000;
      return isTheSame ? 0 : uptime - after;
    } catch (IOException error) {
      return 0;
    }
  }

  static double seconds(JsonObject command, String name, double otherwise) {
    return command.has(name) && !command.get(name).isJsonNull() ? command.get(name).getAsDouble() : otherwise;
  }

  static Duration span(double seconds) {
    return Duration.ofMillis(Math.round(seconds * 1000));
  }

  static boolean is(JsonObject command, String name) {
    return command.has(name) && !command.get(name).isJsonNull() && command.get(name).getAsBoolean();
  }

  static <T> T in(ExecutorService thread, java.util.concurrent.Callable<T> work) throws Exception {
    try {
      return thread.submit(work).get();
    } catch (ExecutionException failed) {
      throw failed.getCause() instanceof Exception error ? error : failed;
    }
  }

  void main() throws IOException {
    say(Map.of("pid", ProcessHandle.current().pid(), "language", language(), "resets", true));
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      JsonObject command = JsonParser.parseString(line).getAsJsonObject();
      if (command.get("do").getAsString().equals("exit")) {
        break;
      }
      running.begin();
      daemon(() -> answer(command)).start();
    }
    // Clients are not closed: that would take the better part of a second.
    Runtime.getRuntime().halt(0);
  }

  private void answer(JsonObject command) {
    JsonObject answer = new JsonObject();
    answer.add("id", command.get("id"));
    try {
      JsonObject ok = obey(command);
      answer.addProperty("at", ok.has("at") ? ok.remove("at").getAsLong() : now());
      answer.add("ok", ok);
    } catch (Exception error) {
      JsonObject failure = new JsonObject();
      String code = error instanceof Failed failed ? failed.code : error.getClass().getSimpleName();
      failure.addProperty("code", code);
      failure.addProperty("retryable", code.equals("timeout"));
      failure.addProperty("message", String.valueOf(error.getMessage()));
      answer.addProperty("at", now());
      answer.add("error", failure);
    }
    running.end();
    say(answer);
  }

  private JsonObject obey(JsonObject command) throws Exception {
    JsonObject ok = new JsonObject();
    String guard = command.has("guard") ? command.get("guard").getAsString() : "";
    switch (command.get("do").getAsString()) {
      case "open" -> open(command.get("client").getAsString(), command.get("uri").getAsString());
      case "acquire" -> {
        Held got = acquire(command, seconds(command, "timeout", -1));
        if (got == null) {
          throw new Failed("timeout", language() + " did not get the lock in time");
        }
        keep(guard, got, ok);
      }
      case "try" -> {
        Held got = acquire(command, 0);
        if (got == null) {
          ok.addProperty("taken", true);
        } else {
          keep(guard, got, ok);
        }
      }
      case "release" -> ok.addProperty("outcome", release(held.remove(guard)));
      case "extend" -> {
        Held extended = held.get(guard);
        double ttl = seconds(command, "ttl", TTL);
        long asked = now();
        extended.extend(ttl);
        extended.until = asked + (long) (ttl * 1e9);
      }
      case "state" -> {
        Held asked = held.get(guard);
        ok.addProperty("held", asked.isHeld());
        ok.addProperty("remaining", asked.remaining());
        ok.addProperty("token", asked.token);
        ok.addProperty("depth", 1);
      }
      case "break" -> ok.addProperty("broken", force(command));
      case "request_release" -> ok.addProperty("asked", askBack(command));
      case "requested" -> {
        held.get(guard).awaitRequest();
        ok.addProperty("requested", true);
      }
      case "work" -> work(command);
      case "reset" -> reset();
      default -> throw new Failed("unsupported", "no such command");
    }
    return ok;
  }

  /** Ends all that is in hand, and has nothing any more but the process itself. */
  private void reset() throws InterruptedException {
    close();
    held.values().forEach(had -> had.thread.shutdown());
    held.clear();
    running.awaitTheOthers();
  }

  private void keep(String guard, Held got, JsonObject ok) {
    ok.addProperty("at", now());
    held.put(guard, got);
    ok.addProperty("token", got.token);
    ok.addProperty("depth", 1);
    ok.addProperty("remaining", got.remaining());
  }

  private static String release(Held held) {
    String outcome = held.release() ? "released" : "stolen";
    held.thread.shutdown();
    return outcome;
  }

  /** Counts up under the lock in several tasks, and logs it as a shim's {@code work} does. */
  private void work(JsonObject command) throws Exception {
    List<Future<?>> tasks = new ArrayList<>();
    ExecutorService threads = Executors.newCachedThreadPool(Peer::daemon);
    for (int i = 0; i < command.get("tasks").getAsInt(); i++) {
      String task = command.get("name").getAsString() + "-" + i;
      tasks.add(threads.submit(() -> {
        count(command, task);
        return null;
      }));
    }
    for (Future<?> task : tasks) {
      try {
        task.get();
      } catch (ExecutionException failed) {
        throw failed.getCause() instanceof Exception error ? error : failed;
      }
    }
    threads.shutdown();
  }

  private void count(JsonObject command, String task) throws Exception {
    Path counter = Path.of(command.get("counter").getAsString());
    Path log = Path.of(command.get("log").getAsString());
    for (int i = 0; i < command.get("increments").getAsInt(); i++) {
      long asked = now();
      Held got = acquire(command, -1);
      long at = now();
      long lasts = at + (long) (got.remaining() * 1e9);
      note(log, task, got.token, at, Map.of("event", "grant", "asked", asked, "until", lasts, "units", got.units));
      long begin = now();
      long value = countUp(counter, task);
      long done = now();
      long until = done + (long) (got.remaining() * 1e9);
      note(log, task, got.token, done,
          Map.of("event", "increment", "begin", begin, "value", value, "held", until > done, "until", until));
      String outcome = release(got);
      note(log, task, got.token, now(), Map.of("event", "released", "outcome", outcome));
    }
  }

  /** Not atomic in the least, but for the last step: whoever is killed leaves the old value or the new one. */
  static long countUp(Path counter, String task) throws IOException {
    long value = 1;
    try {
      value = Long.parseLong(Files.readString(counter).trim()) + 1;
    } catch (NoSuchFileException first) {
      // It is the first.
    }
    Path next = Path.of(counter + "." + task);
    Files.writeString(next, Long.toString(value));
    Files.move(next, counter, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
    return value;
  }

  static void note(Path log, String task, long token, long at, Map<String, Object> event) throws IOException {
    Map<String, Object> record = new java.util.LinkedHashMap<>();
    record.put("at", at);
    record.put("pid", ProcessHandle.current().pid());
    record.put("task", task);
    record.put("token", token);
    record.putAll(event);
    Files.writeString(log, GSON.toJson(record) + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
  }
}
