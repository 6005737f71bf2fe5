import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.lockwright.Arrival;
import dev.lockwright.Barrier;
import dev.lockwright.Client;
import dev.lockwright.Election;
import dev.lockwright.Guard;
import dev.lockwright.Holder;
import dev.lockwright.Inspection;
import dev.lockwright.Latch;
import dev.lockwright.Lock;
import dev.lockwright.LockException;
import dev.lockwright.Lockwright;
import dev.lockwright.LossReason;
import dev.lockwright.MultiGuard;
import dev.lockwright.MultiLock;
import dev.lockwright.Once;
import dev.lockwright.Options;
import dev.lockwright.Owner;
import dev.lockwright.ReleaseOutcome;
import dev.lockwright.Requirement;
import dev.lockwright.Segment;
import dev.lockwright.Striped;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.RecordComponent;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** The shim of the JVM's faces: {@code sync} waits in threads, {@code async} for futures. The README of this folder's parent says what a shim does. */
final class Shim {
  private static final long WRITER = 1L << 30;

  private final boolean async;
  private final Map<String, Client> clients = new ConcurrentHashMap<>();
  private final Map<String, String> uris = new ConcurrentHashMap<>();
  private final Map<String, Held> held = new ConcurrentHashMap<>();
  private final Map<String, Striped> stocks = new ConcurrentHashMap<>();
  private final Map<String, Segment> segments = new ConcurrentHashMap<>();
  /** A thread each; a future names the owner. */
  private final Map<Long, ExecutorService> threads = new ConcurrentHashMap<>();
  private final Map<Long, Owner> owners = new ConcurrentHashMap<>();
  /** What may be cancelled, by the command's id. */
  private final Map<Long, Cancel> cancels = new ConcurrentHashMap<>();
  private final InHand running = new InHand();

  private Shim(boolean async) {
    this.async = async;
  }

  public static void main(String[] arguments) throws IOException {
    new Shim(arguments[0].equals("async")).main();
  }

  private void main() throws IOException {
    Peer.say(Map.of("pid", ProcessHandle.current().pid(), "language", "java", "resets", true));
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      JsonObject command = JsonParser.parseString(line).getAsJsonObject();
      if (text(command, "do").equals("exit")) {
        break;
      }
      dispatch(command);
    }
    // What still waits does so in daemons: the JVM ends.
  }

  private void dispatch(JsonObject command) {
    running.begin();
    // Now, not when its thread has begun: the next command may cancel it.
    cancels.put(command.get("id").getAsLong(), new Cancel());
    if (has(command, "owner")) {
      long owner = command.get("owner").getAsLong();
      threads.computeIfAbsent(owner, number -> Executors.newSingleThreadExecutor(Peer::daemon)).execute(() -> answer(command));
    } else {
      Peer.daemon(() -> answer(command)).start();
    }
  }

  private void answer(JsonObject command) {
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("id", command.get("id"));
    try {
      Map<String, Object> ok = obey(command);
      if (ok == null) {
        end(command);
        return;
      }
      Object at = ok.remove("at");
      answer.put("at", at == null ? Peer.now() : at);
      answer.put("ok", ok);
    } catch (Throwable error) {
      answer.put("at", Peer.now());
      answer.put("error", failure(error));
    }
    end(command);
    Peer.say(answer);
  }

  private void end(JsonObject command) {
    cancels.remove(command.get("id").getAsLong());
    running.end();
  }

  private static Map<String, Object> failure(Throwable error) {
    String code = error instanceof LockException failed ? failed.code()
        : error instanceof CancellationException ? "cancelled" : error.getClass().getSimpleName();
    boolean retryable = error instanceof LockException failed && failed.retryable();
    return Map.of("code", code, "retryable", retryable, "message", String.valueOf(error.getMessage()), "debug", error.toString());
  }

  /** Has a command's work wait the way of this face. */
  private <T> T wait(JsonObject command, Callable<T> sync, Callable<CompletableFuture<T>> future) throws Exception {
    Cancel cancel = cancels.getOrDefault(command.get("id").getAsLong(), new Cancel());
    if (!async) {
      cancel.by(Thread.currentThread()::interrupt);
      try {
        return sync.call();
      } finally {
        cancel.by(null);
      }
    }
    CompletableFuture<T> begun = future.call();
    cancel.by(() -> begun.cancel(true));
    try {
      return begun.join();
    } catch (CompletionException error) {
      throw error.getCause() instanceof Exception cause ? cause : error;
    } finally {
      cancel.by(null);
    }
  }

  /** Of one command: its wait may begin before it is cancelled or after. */
  private static final class Cancel {
    private boolean cancelled;
    private Runnable how;

    /** How the wait is cancelled that begins; {@code null} where none is any more. */
    synchronized void by(Runnable how) {
      this.how = how;
      if (cancelled && how != null) {
        how.run();
      }
    }

    synchronized void cancel() {
      cancelled = true;
      if (how != null) {
        how.run();
      }
    }
  }

  /** What is held: one lock, or several. */
  private record Held(Guard guard, MultiGuard all, String name) {
    long token() {
      return guard != null ? guard.token() : all.tokens().get(name);
    }

    int depth() {
      return guard != null ? guard.depth() : 1;
    }

    double remaining() {
      return seconds(guard != null ? guard.remaining() : all.remaining());
    }

    boolean isHeld() {
      return guard != null ? guard.isHeld() : all.isHeld();
    }

    LossReason why() {
      return guard != null ? guard.whyLost() : all.whyLost();
    }
  }

  private Client client(JsonObject command) {
    return clients.get(text(command, "client"));
  }

  private static String name(JsonObject command) {
    if (!has(command, "lock_utf16")) {
      return text(command, "lock");
    }
    StringBuilder name = new StringBuilder();
    command.get("lock_utf16").getAsJsonArray().forEach(unit -> name.append((char) unit.getAsInt()));
    return name.toString();
  }

  /** With the options that a command names. */
  private static <S extends Options<S>> S with(S of, JsonObject command) {
    S made = of;
    if (has(command, "ttl")) {
      made = isText(command, "ttl") ? made.ttl(text(command, "ttl")) : made.ttl(span(command, "ttl"));
    }
    if (has(command, "timeout")) {
      made = isText(command, "timeout") ? made.timeout(text(command, "timeout")) : made.timeout(span(command, "timeout"));
    }
    if (has(command, "max_hold")) {
      made = isText(command, "max_hold") ? made.maxHold(text(command, "max_hold")) : made.maxHold(span(command, "max_hold"));
    }
    if (has(command, "at_least_for")) {
      made = isText(command, "at_least_for") ? made.atLeastFor(text(command, "at_least_for")) : made.atLeastFor(span(command, "at_least_for"));
    }
    if (has(command, "renew")) {
      made = made.renew(command.get("renew").getAsBoolean());
    }
    if (has(command, "fair")) {
      made = made.fair(command.get("fair").getAsBoolean());
    }
    if (has(command, "revocable")) {
      made = made.revocable(command.get("revocable").getAsBoolean());
    }
    if (has(command, "rank")) {
      made = made.rank(command.get("rank").getAsInt());
    }
    if (has(command, "label")) {
      made = made.label(text(command, "label"));
    }
    if (has(command, "layout")) {
      made = made.layout(text(command, "layout"));
    }
    if (has(command, "format")) {
      made = made.format(text(command, "format"));
    }
    return made;
  }

  private Lock lock(Client client, JsonObject command) {
    String name = name(command);
    Lock lock;
    if (has(command, "permits")) {
      lock = with(client.semaphore(name, command.get("permits").getAsInt()), command).take((int) number(command, "take", 1));
    } else if (has(command, "share")) {
      var both = with(client.readWriteLock(name), command);
      lock = text(command, "share").equals("write") ? both.write() : both.read();
    } else {
      lock = with(client.lock(name), command);
    }
    if (!has(command, "owner")) {
      return lock;
    }
    return async ? lock.ownedBy(owners.computeIfAbsent(command.get("owner").getAsLong(), number -> new Owner())) : lock.reentrant(true);
  }

  private static MultiLock several(Client client, JsonObject command) {
    List<String> names = new ArrayList<>();
    command.get("with").getAsJsonArray().forEach(name -> names.add(name.getAsString()));
    names.add(name(command));
    return with(client.multiLock(names), command);
  }

  private Held acquire(Client client, JsonObject command) throws Exception {
    if (has(command, "with")) {
      MultiLock all = several(client, command);
      return new Held(null, wait(command, all::acquire, all::acquireAsync), name(command));
    }
    Lock lock = lock(client, command);
    return new Held(wait(command, lock::acquire, lock::acquireAsync), null, null);
  }

  private Held tryAcquire(JsonObject command) throws Exception {
    if (has(command, "with")) {
      MultiGuard all = several(client(command), command).tryAcquire();
      return all == null ? null : new Held(null, all, name(command));
    }
    Lock lock = lock(client(command), command);
    Guard guard = wait(command, lock::tryAcquire, lock::tryAcquireAsync);
    return guard == null ? null : new Held(guard, null, null);
  }

  private Map<String, Object> keep(JsonObject command, Held got) {
    long at = Peer.now();
    held.put(text(command, "guard"), got);
    return ok("at", at, "token", got.token(), "depth", got.depth(), "remaining", got.remaining());
  }

  private ReleaseOutcome release(JsonObject command, Held of) throws Exception {
    return of.guard != null ? wait(command, of.guard::release, of.guard::releaseAsync) : wait(command, of.all::release, of.all::releaseAsync);
  }

  private Map<String, Object> obey(JsonObject command) throws Exception {
    Held of = has(command, "guard") ? held.get(text(command, "guard")) : null;
    switch (text(command, "do")) {
      case "open" -> {
        Client opened = Lockwright.connect(text(command, "uri"));
        clients.put(text(command, "client"), opened);
        uris.put(text(command, "client"), text(command, "uri"));
        return ok("shown", opened.toString());
      }
      case "guarantees" -> {
        return fields(client(command).guarantees());
      }
      case "require" -> {
        List<Requirement> wants = new ArrayList<>();
        command.get("wants").getAsJsonArray().forEach(want -> wants.add(Requirement.valueOf(want.getAsString().toUpperCase(Locale.ROOT))));
        client(command).require(wants.toArray(Requirement[]::new));
        return ok();
      }
      case "acquire" -> {
        return keep(command, acquire(client(command), command));
      }
      case "try" -> {
        Held got = tryAcquire(command);
        return got == null ? ok("taken", true) : keep(command, got);
      }
      case "cancel" -> {
        Cancel cancel = cancels.get(command.get("command").getAsLong());
        if (cancel != null) {
          cancel.cancel();
        }
        return ok();
      }
      case "release" -> {
        ReleaseOutcome outcome = release(command, of);
        return outcome == ReleaseOutcome.KEPT ? ok("outcome", "kept", "kept", of.depth() - 1) : ok("outcome", outcome.code());
      }
      case "extend" -> {
        Duration ttl = span(command, "ttl");
        wait(command, () -> {
          of.guard.extend(ttl);
          return null;
        }, () -> of.guard.extendAsync(ttl));
        return ok();
      }
      case "export" -> {
        Duration ttl = span(command, "ttl");
        return ok("secret", wait(command, () -> of.guard.export(ttl), () -> of.guard.exportAsync(ttl)));
      }
      case "resume" -> {
        String secret = text(command, "secret");
        Lock lock = has(command, "lock") ? lock(client(command), command) : with(client(command).exportedLock(secret), command);
        return keep(command, new Held(wait(command, () -> lock.resume(secret), () -> lock.resumeAsync(secret)), null, null));
      }
      case "hold_at_least_for" -> {
        of.guard.holdAtLeastFor(span(command, "span"));
        return ok();
      }
      case "ping" -> {
        Client client = client(command);
        var health = wait(command, client::ping, client::pingAsync);
        return ok("took", seconds(health.took()), "may_evict", health.mayEvict());
      }
      case "drain" -> {
        Client client = client(command);
        Duration limit = span(command, "limit");
        return ok("held", wait(command, () -> client.drain(limit), () -> client.drainAsync(limit)));
      }
      case "downgrade" -> {
        wait(command, () -> {
          of.guard.downgrade();
          return null;
        }, of.guard::downgradeAsync);
        return ok();
      }
      case "upgrade" -> {
        return ok("upgraded", wait(command, of.guard::tryUpgrade, of.guard::tryUpgradeAsync));
      }
      case "resize" -> {
        client(command).semaphore(name(command), 1).resize(command.get("permits").getAsInt());
        return ok();
      }
      case "state" -> {
        LossReason why = of.why();
        return ok("held", of.isHeld(), "remaining", of.remaining(), "why", why == null ? null : why.code(), "token", of.token(), "depth", of.depth());
      }
      case "lost" -> {
        try {
          LossReason why = of.guard.lost().get();
          return ok("why", why.code());
        } catch (CancellationException released) {
          return null;
        }
      }
      case "abandon" -> {
        held.remove(text(command, "guard"));
        collect();
        return ok();
      }
      case "inspect" -> {
        Client client = client(command);
        return inspection(wait(command, () -> client.inspect(name(command)), () -> client.inspectAsync(name(command))));
      }
      case "list" -> {
        Client client = client(command);
        return ok("names", wait(command, client::list, client::listAsync));
      }
      case "break" -> {
        Client client = client(command);
        long token = command.get("token").getAsLong();
        String name = name(command);
        return ok("broken", wait(command, () -> client.breakLock(name, token), () -> client.breakLockAsync(name, token)));
      }
      case "request_release" -> {
        Lock lock = lock(client(command), command);
        long token = command.get("token").getAsLong();
        return ok("asked", wait(command, () -> lock.requestRelease(token), () -> lock.requestReleaseAsync(token)));
      }
      case "requested" -> {
        CompletableFuture<Boolean> asked = new CompletableFuture<>();
        of.guard.onReleaseRequested(() -> asked.complete(of.guard.releaseRequested()));
        return ok("requested", asked.get());
      }
      case "close" -> {
        Client client = client(command);
        wait(command, () -> {
          client.close();
          return null;
        }, client::closeAsync);
        return ok();
      }
      case "count" -> {
        new Log(text(command, "name"), command).increment(of, command.get("asked").getAsLong());
        return ok();
      }
      case "segment" -> {
        return segment(command);
      }
      case "sold_out" -> {
        return ok("outcome", segments.get(text(command, "guard")).soldOut().code());
      }
      case "restock" -> {
        striped(command).restock();
        return ok();
      }
      case "once" -> {
        return once(command);
      }
      case "campaign" -> {
        Election election = election(command);
        String proclaims = text(command, "proclaims");
        return keep(command, new Held(wait(command, () -> election.campaign(proclaims), () -> election.campaignAsync(proclaims)), null, null));
      }
      case "lead" -> {
        return lead(command);
      }
      case "leader" -> {
        return leader(election(command).leader());
      }
      case "changed" -> {
        Long known = has(command, "known") ? command.get("known").getAsLong() : null;
        return leader(election(command).changed(known, span(command, "every")));
      }
      case "latch" -> {
        return latch(command);
      }
      case "barrier" -> {
        return barrier(command);
      }
      case "work" -> {
        return work(command);
      }
      case "reset" -> {
        reset();
        return ok();
      }
      default -> throw new IllegalArgumentException("no such command");
    }
  }

  /** Ends all that is in hand, and has nothing any more but the process itself. */
  private void reset() throws InterruptedException {
    clients.values().forEach(Client::close);
    threads.values().forEach(ExecutorService::shutdownNow);
    running.awaitTheOthers();
    List.of(clients, uris, held, stocks, segments, threads, owners).forEach(Map::clear);
  }

  private Map<String, Object> segment(JsonObject command) throws Exception {
    Striped striped = striped(command);
    if (has(command, "key")) {
      String key = text(command, "key");
      Lock lock = striped.forKey(key);
      Map<String, Object> kept = keep(command, new Held(wait(command, lock::acquire, lock::acquireAsync), null, null));
      kept.put("index", striped.indexFor(key));
      return kept;
    }
    Duration timeout = has(command, "timeout") ? span(command, "timeout") : null;
    Segment segment = timeout == null ? wait(command, striped::any, striped::anyAsync)
        : wait(command, () -> striped.any(timeout), () -> striped.anyAsync(timeout));
    if (segment == null) {
      return ok("none", true);
    }
    segments.put(text(command, "guard"), segment);
    Map<String, Object> kept = keep(command, new Held(segment.guard(), null, null));
    kept.put("index", segment.index());
    return kept;
  }

  /** The same one for each command: what is sold out is known to it alone. */
  private Striped striped(JsonObject command) {
    String key = text(command, "client") + "/" + text(command, "lock") + "/" + command.get("segments");
    return stocks.computeIfAbsent(key, made -> with(client(command).striped(text(command, "lock"), command.get("segments").getAsInt()), command));
  }

  private Map<String, Object> once(JsonObject command) throws Exception {
    Client client = client(command);
    Path file = Path.of(text(command, "value"));
    boolean[] made = {false};
    Once.Look<Long> look = () -> look(file);
    Once.Make<Long> make = token -> {
      made[0] = true;
      if (has(command, "gate")) {
        with(client.lock(text(command, "gate")), command).acquire().release();
      }
      Once.Found<Long> found = look(file);
      long value = found == null ? 1 : found.value() + 1;
      replace(file, "making", value);
      return value;
    };
    Once<Long> job = with(client.once(text(command, "lock"), look, make), command);
    boolean waits = has(command, "waits") && command.get("waits").getAsBoolean();
    return ok("value", job.waits(waits).get(), "made", made[0]);
  }

  private static Once.Found<Long> look(Path file) throws IOException {
    try {
      String[] parts = Files.readString(file).split(" ");
      return new Once.Found<>(Long.parseLong(parts[0]), parts.length == 1);
    } catch (NoSuchFileException none) {
      return null;
    }
  }

  private Election election(JsonObject command) {
    return with(client(command).election(text(command, "lock")), command);
  }

  private Map<String, Object> lead(JsonObject command) throws Exception {
    Lock gate = client(command).lock(text(command, "gate"));
    int[] reigns = {0};
    long token = election(command).run(text(command, "proclaims"), guard -> {
      reigns[0]++;
      while (guard.isHeld()) {
        try {
          gate.acquire(Duration.ofSeconds(1)).release();
          break;
        } catch (LockException.Timeout closed) {
          // It is still shut.
        }
      }
      return guard.token();
    });
    return ok("token", token, "reigns", reigns[0]);
  }

  private static Map<String, Object> leader(Election.Leader leader) {
    return ok("leader", leader == null ? null
        : ok("proclaims", leader.proclaims(), "pid", leader.pid(), "language", leader.language(), "token", leader.token()));
  }

  private Map<String, Object> latch(JsonObject command) throws Exception {
    Latch latch = client(command).latch(name(command), command.get("count").getAsInt());
    Duration timeout = has(command, "timeout") ? span(command, "timeout") : null;
    return ok("answer", switch (text(command, "asks")) {
      case "wait" -> wait(command, () -> {
        if (timeout != null) {
          return latch.await(timeout);
        }
        latch.await();
        return true;
      }, () -> latch.awaitAsync(timeout));
      case "count_down" -> wait(command, latch::countDown, latch::countDownAsync);
      case "count" -> wait(command, latch::count, latch::countAsync);
      default -> {
        int to = command.get("to").getAsInt();
        yield wait(command, () -> latch.trySetCount(to), () -> latch.trySetCountAsync(to));
      }
    });
  }

  private Map<String, Object> barrier(JsonObject command) throws Exception {
    int parties = command.get("parties").getAsInt();
    Client client = client(command);
    Barrier barrier = has(command, "ttl") ? client.barrier(name(command), parties, span(command, "ttl")) : client.barrier(name(command), parties);
    if (text(command, "asks").equals("waiting")) {
      return ok("waiting", wait(command, barrier::waiting, barrier::waitingAsync));
    }
    Duration timeout = has(command, "timeout") ? span(command, "timeout") : null;
    List<Long> generations = new ArrayList<>();
    int index = 0;
    for (long times = number(command, "times", 1); times > 0; times--) {
      Arrival arrival = wait(command, () -> timeout == null ? barrier.await() : barrier.await(timeout), () -> barrier.awaitAsync(timeout));
      if (arrival == null) {
        return ok("passed", false);
      }
      generations.add(arrival.generation());
      index = arrival.index();
    }
    return ok("passed", true, "index", index, "generations", generations);
  }

  private static Map<String, Object> inspection(Inspection seen) {
    Map<String, Object> shared = null;
    if (seen.shared() != null) {
      List<Object> holders = new ArrayList<>();
      seen.shared().holders().forEach(part -> {
        Map<String, Object> holder = holder(part.holder());
        holder.put("holds", part.holds());
        holders.add(holder);
      });
      shared = ok("primitive", seen.shared().primitive(), "permits", seen.shared().permits(), "holders", holders);
    }
    return ok("layout", seen.layout(), "waiters", seen.waiters(), "primitive", seen.primitive(), "shared", shared,
        "latch", seen.latch() == null ? null : ok("count", seen.latch().count()), "holder", holder(seen.holder()));
  }

  private static Map<String, Object> holder(Holder of) {
    return of == null ? null : ok("first_token", of.firstToken(), "last_token", of.lastToken(), "remaining", seconds(of.remaining()),
        "held_for", of.heldFor() == null ? null : seconds(of.heldFor()), "host", of.host(), "pid", of.pid(), "language", of.language(),
        "label", of.label());
  }

  private Map<String, Object> work(JsonObject command) throws Exception {
    ExecutorService pool = Executors.newCachedThreadPool(Peer::daemon);
    List<Future<List<String>>> tasks = new ArrayList<>();
    for (int i = 0; i < command.get("tasks").getAsInt(); i++) {
      String task = text(command, "name") + "-" + i;
      boolean own = has(command, "own_clients") && command.get("own_clients").getAsBoolean();
      Client client = own ? ownClient(command, i) : client(command);
      tasks.add(pool.submit(() -> task(client, task, command)));
    }
    List<String> retries = new ArrayList<>();
    for (Future<List<String>> task : tasks) {
      try {
        retries.addAll(task.get());
      } catch (ExecutionException failed) {
        throw failed.getCause() instanceof Exception error ? error : failed;
      }
    }
    pool.shutdown();
    return ok("retries", retries);
  }

  private Client ownClient(JsonObject command, int i) {
    String uri = uris.get(text(command, "client"));
    return clients.computeIfAbsent(text(command, "client") + "/" + i, name -> Lockwright.connect(uri));
  }

  private List<String> task(Client client, String task, JsonObject command) throws Exception {
    Log log = new Log(task, command);
    List<String> retries = new ArrayList<>();
    // Each waits by itself: nothing of a task is cancelled.
    JsonObject own = command.deepCopy();
    own.addProperty("id", -1 - Thread.currentThread().getId());
    for (int done = 0; done < command.get("increments").getAsInt(); ) {
      try {
        long asked = Peer.now();
        Held got = acquire(client, own);
        log.increment(got, asked);
        ReleaseOutcome outcome = release(own, got);
        log.note(got, Peer.now(), ok("event", "released", "outcome", outcome.code()));
        done++;
      } catch (LockException error) {
        if (!error.retryable()) {
          throw error;
        }
        retries.add(error.code());
      }
    }
    return retries;
  }

  /** What a working task says of itself, and the counter that it raises. */
  private static final class Log {
    private final String task;
    private final Path log;
    private final Path counter;
    private final long units;

    Log(String task, JsonObject command) {
      this.task = task;
      log = Path.of(text(command, "log"));
      counter = Path.of(text(command, "counter"));
      units = has(command, "share") && text(command, "share").equals("write") ? WRITER : number(command, "take", 1);
    }

    private static long until(long at, Held got) {
      return at + (long) (got.remaining() * 1e9);
    }

    void increment(Held got, long asked) throws IOException {
      long at = Peer.now();
      note(got, at, ok("event", "grant", "asked", asked, "until", until(at, got), "units", units));
      long begin = Peer.now();
      long value = Peer.countUp(counter, task);
      // The guard is asked after the clock: what it still says then was true at that time.
      long done = Peer.now();
      note(got, done, ok("event", "increment", "begin", begin, "value", value, "held", got.isHeld(), "until", until(done, got)));
      LossReason why = got.why();
      if (why != null) {
        note(got, Peer.now(), ok("event", "lost", "why", why.code()));
      }
    }

    void note(Held by, long at, Map<String, Object> event) throws IOException {
      Peer.note(log, task, by.token(), at, event);
    }
  }

  private static void replace(Path file, String by, long value) throws IOException {
    Path next = Path.of(file + "." + by);
    Files.writeString(next, Long.toString(value));
    Files.move(next, file, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
  }

  /** The cleaner runs some time after the collector. */
  private static void collect() {
    Peer.daemon(() -> {
      for (int round = 0; round < 20; round++) {
        System.gc();
        Thread.yield();
      }
    }).start();
  }

  /** A record's fields, by their names in the core. */
  private static Map<String, Object> fields(Record of) throws ReflectiveOperationException {
    Map<String, Object> fields = new HashMap<>();
    for (RecordComponent field : of.getClass().getRecordComponents()) {
      fields.put(field.getName().replaceAll("([A-Z])", "_$1").toLowerCase(Locale.ROOT), field.getAccessor().invoke(of));
    }
    return fields;
  }

  private static Map<String, Object> ok(Object... pairs) {
    Map<String, Object> ok = new LinkedHashMap<>();
    for (int i = 0; i < pairs.length; i += 2) {
      ok.put((String) pairs[i], pairs[i + 1]);
    }
    return ok;
  }

  private static boolean has(JsonObject command, String name) {
    JsonElement given = command.get(name);
    return given != null && !given.isJsonNull();
  }

  private static boolean isText(JsonObject command, String name) {
    return command.get(name).getAsJsonPrimitive().isString();
  }

  private static String text(JsonObject command, String name) {
    return command.get(name).getAsString();
  }

  private static long number(JsonObject command, String name, long otherwise) {
    return has(command, name) ? command.get(name).getAsLong() : otherwise;
  }

  private static Duration span(JsonObject command, String name) {
    double seconds = command.get(name).getAsDouble();
    double whole = Math.floor(seconds);
    return Duration.ofSeconds((long) whole, (long) ((seconds - whole) * 1e9));
  }

  private static double seconds(Duration span) {
    return span.getSeconds() + span.getNano() / 1e9;
  }
}
