package dev.lockwright;

import java.lang.ref.Cleaner;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * A lock that is held. It is renewed until it is released, which {@link #close} does at the end of a {@code try} block.
 *
 * <p>One that is collected unreleased is not renewed any more, with a warning, and not released: the collector may come in the middle of
 * what the lock protects. Any thread may use it.
 */
public final class Guard implements AutoCloseable {
  private final Client client;
  private final long number;
  private final String name;
  private final long epoch;
  private final int depth;
  private final Cleaner.Cleanable cleanable;
  private final Abandon abandon;
  private volatile long token;
  private volatile LossReason why;
  private Losses losses;

  /** What is done when a guard was collected, or was released; it must not know the guard. */
  private static final class Abandon implements Runnable {
    private final long number;
    private final String name;
    /** There will be no loss: it was given back. */
    private volatile boolean over;
    /** It was released, and the native library knows its number no more. */
    private volatile boolean forgotten;

    Abandon(long number, String name) {
      this.number = number;
      this.name = name;
    }

    @Override
    public void run() {
      if (forgotten) {
        return;
      }
      Agenda.LOSSES.remove(number);
      if (over) {
        new Request(Verb.FORGET, number).call();
        return;
      }
      if (new Request(Verb.ABANDON, number).ask() instanceof Duration left && !left.isZero()) {
        Log.LOGGER.log(System.Logger.Level.WARNING, "a guard of lock \"" + name + "\" was collected without a release; the lock is not"
            + " renewed any more and free in " + left.toMillis() / 1e3 + " s; keep what acquire returns, best in a try block");
      }
    }
  }

  Guard(Client client, Reply.Grant grant) {
    this.client = client;
    number = grant.guard();
    name = grant.name();
    token = grant.token();
    epoch = grant.epoch();
    depth = grant.depth();
    abandon = new Abandon(number, name);
    cleanable = Handle.CLEANER.register(this, abandon);
  }

  /** The fencing token: whatever the lock protects refuses one that is lower than it has seen. */
  public long token() {
    return token;
  }

  /** Changes only where tokens start again; goes before the token when two are compared. */
  public long epoch() {
    return epoch;
  }

  /** The name of its lock. */
  public String name() {
    return name;
  }

  /** How many times its owner holds the lock. */
  public int depth() {
    return depth;
  }

  /** What the library knows of it at a moment. */
  private record State(boolean isHeld, Duration remaining, LossReason why, long token, boolean releaseRequested) {}

  private State state() {
    List<Object> told = Handle.list(request(Verb.STATE).call());
    return told == null
        ? new State(false, Duration.ZERO, why, token, false)
        : new State(
            (boolean) told.get(0), (Duration) told.get(1), LossReason.of((String) told.get(2)), (long) told.get(3), (boolean) told.get(4));
  }

  /** Whether the lock is certainly held at this moment. */
  public boolean isHeld() {
    return state().isHeld();
  }

  /** How much longer the lock is certainly held without a further renewal; nothing once it was given back. */
  public Duration remaining() {
    return state().remaining();
  }

  /** Why it was lost; null unless it was. */
  public LossReason whyLost() {
    return state().why();
  }

  /**
   * Has {@code callback} called once, by the client's executor, if the lock is lost before it is released and this guard still exists: at
   * the deadline, and not when some later command fails.
   */
  public void onLost(Consumer<LossReason> callback) {
    losses().add(Objects.requireNonNull(callback, "callback"));
    watch();
  }

  /**
   * Completes when the lock is lost; is cancelled once it was given back. Each call has a future of its own. Keep the guard: who drops it is
   * told nothing.
   */
  public CompletableFuture<LossReason> lost() {
    CompletableFuture<LossReason> lost = losses().copy();
    watch();
    return lost;
  }

  /** Whether somebody asked for the lock back since it was granted; only known of one that is {@link Options#revocable}. */
  public boolean releaseRequested() {
    return state().releaseRequested();
  }

  /**
   * Has {@code callback} called once, by the client's executor, if somebody asks for the lock back before it is released and this guard
   * still exists: at once if that was done already, and never where the lock is not {@link Options#revocable}. It stays held until it is
   * released.
   */
  public void onReleaseRequested(Runnable callback) {
    Objects.requireNonNull(callback, "callback");
    Losses told = losses();
    watch();
    if (told.addRequest(callback)) {
      request(Verb.HEED).call();
    }
  }

  private synchronized Losses losses() {
    if (losses == null) {
      losses = new Losses(client.executor);
    }
    return losses;
  }

  private synchronized void watch() {
    if (Agenda.LOSSES.putIfAbsent(number, new WeakReference<>(losses)) == null) {
      LossReason lost = whyLost();
      if (lost != null) {
        Agenda.LOSSES.remove(number);
        losses.tell(lost);
      } else if (!(boolean) request(Verb.WATCH).call()) {
        Agenda.LOSSES.remove(number);
        losses.over();
      }
    }
  }

  private boolean isVirtual() {
    return Threads.isVirtual();
  }

  private Request request(Verb verb) {
    return new Request(verb, number, this);
  }

  /** The same outcome of a request for this guard: of one that was released the native library knows not even the name. */
  Object named(Object outcome) {
    return outcome instanceof Reply.Failure failure && failure.lock() == null && failure.code().equals("not_owned")
        ? LockException.failure("not_owned", failure.operation(), name, client.address(), "this guard was released already")
        : outcome;
  }

  /** What comes of a request in this thread, whether it may block or not. */
  private Object await(Verb here, Verb begin, Function<Request, Request> arguments) {
    if (isVirtual()) {
      return Job.begin(null, arguments.apply(request(begin)), outcome -> outcome, null).await();
    }
    return arguments.apply(request(here)).call();
  }

  private <T> Job<T> begin(Verb verb, Function<Request, Request> arguments, Function<Object, T> read) {
    return Job.begin(client.executor, arguments.apply(request(verb)), read, null);
  }

  /**
   * Makes the lease last at least {@code ttl} (20 ms to 24 hours) from now, and at every renewal.
   *
   * @throws LockException.Lost when the lock is not held any more
   * @throws LockException.Unavailable when the store did not answer for the store timeout: the lock stays held for as long as {@link #remaining()}
   *     says
   */
  public void extend(Duration ttl) {
    await(Verb.EXTEND, Verb.BEGIN_EXTEND, request -> request.span("extend", "ttl", ttl));
  }

  /** As {@link #extend(Duration)}, with a text such as {@code "10s"}. */
  public void extend(String ttl) {
    await(Verb.EXTEND, Verb.BEGIN_EXTEND, request -> request.span("extend", "ttl", ttl));
  }

  /** As {@link #extend(Duration)}. */
  public CompletableFuture<Void> extendAsync(Duration ttl) {
    return begin(Verb.BEGIN_EXTEND, request -> request.span("extend", "ttl", ttl), outcome -> null);
  }

  /**
   * However early it is released, the lock stays taken until {@code span} after it was acquired (at most 24 hours): for jobs that several
   * hosts start by clocks that differ. The store keeps the lock then, also when this process ends.
   *
   * @throws LockException.Unsupported where the layout cannot
   */
  public void holdAtLeastFor(Duration span) {
    request(Verb.HOLD_AT_LEAST_FOR).span("hold_at_least_for", "span", span).call();
  }

  /**
   * Leaves the lock to a secret, which {@link Client#resume} takes over within {@code ttl}, in this process or another. Nobody renews it
   * meanwhile, and this guard is dead. Whoever knows the secret may take the lock: treat it as a password. A release meanwhile wins.
   *
   * @throws LockException.Unsupported where the layout cannot, or its owner holds it more than once: then it is still held
   * @throws LockException.NotOwned when it was released, also meanwhile
   * @throws LockException.Unavailable when the store did not say, and the lock is given back; or while it is exported already
   */
  public String export(Duration ttl) {
    String secret = (String) await(Verb.EXPORT, Verb.BEGIN_EXPORT, request -> request.span("export", "ttl", ttl));
    over();
    return secret;
  }

  /**
   * As {@link #export}. Whoever cancels or completes it before that, as {@code orTimeout} does, gives the lock back: a secret that nobody has
   * must not keep it.
   */
  public CompletableFuture<String> exportAsync(Duration ttl) {
    Request request = request(Verb.BEGIN_EXPORT).span("export", "ttl", ttl);
    return Job.begin(client.executor, request, secret -> {
      over();
      return (String) secret;
    }, this::takeBack);
  }

  private void takeBack(String secret) {
    client.resumeAsync(secret).thenAccept(Guard::giveBack);
  }

  /** Of a read/write lock: the writer becomes a reader, and nobody else writes in between. The token stays. */
  public void downgrade() {
    changed(await(Verb.CHANGE, Verb.BEGIN_CHANGE, request -> request.flag(false)));
  }

  /** As {@link #downgrade}. */
  public CompletableFuture<Void> downgradeAsync() {
    return begin(Verb.BEGIN_CHANGE, request -> request.flag(false), outcome -> {
      changed(outcome);
      return null;
    });
  }

  /**
   * Of a read/write lock: whether this reader is the writer now, with a new token. It is if nobody else reads; else it says no at once,
   * so that two readers cannot wait for one another.
   */
  public boolean tryUpgrade() {
    return changed(await(Verb.CHANGE, Verb.BEGIN_CHANGE, request -> request.flag(true)));
  }

  /** As {@link #tryUpgrade}. */
  public CompletableFuture<Boolean> tryUpgradeAsync() {
    return begin(Verb.BEGIN_CHANGE, request -> request.flag(true), this::changed);
  }

  private boolean changed(Object did) {
    token = state().token();
    return (boolean) did;
  }

  /**
   * Gives the lock back, and says what the store found. Whether the thread is interrupted does not matter.
   *
   * @throws LockException.NotOwned the second time
   */
  public ReleaseOutcome release() {
    return ended(await(Verb.RELEASE, Verb.BEGIN_RELEASE, request -> request)).outcome();
  }

  /** As {@link #release}. Cancelling it changes nothing. */
  public CompletableFuture<ReleaseOutcome> releaseAsync() {
    return begin(Verb.BEGIN_RELEASE, request -> request, outcome -> ended(outcome).outcome());
  }

  /** It was released: the native library forgot it with that, and the collector has nothing to do for it. */
  private Reply.Ending ended(Object outcome) {
    Reply.Ending ending = (Reply.Ending) outcome;
    why = ending.why();
    abandon.forgotten = true;
    cleanable.clean();
    over();
    return ending;
  }

  /** It was given back: there will be no loss, and nothing to warn of. */
  private void over() {
    abandon.over = true;
    Agenda.LOSSES.remove(number);
    Losses told;
    synchronized (this) {
      told = losses;
    }
    if (told != null) {
      told.over();
    }
  }

  /**
   * Ends a block: gives the lock back, unless that was done.
   *
   * @throws LockException.Lost when it was lost meanwhile. Where the block has an exception of its own, that one is thrown, and this one
   *     is among its suppressed ones
   */
  @Override
  public void close() {
    try {
      release();
    } catch (LockException.NotOwned already) {
      return;
    }
    if (why != null) {
      throw LockException.lost(name, client.address(), why);
    }
  }

  /** Gives back what nobody wants any more: a guard, or what the native library granted, in the background. */
  static void giveBack(Object unwanted) {
    if (unwanted instanceof Guard guard) {
      guard.abandon.over = true;
      giveBack(guard.number);
    } else if (unwanted instanceof Reply.Grant grant) {
      giveBack(grant.guard());
    } else if (unwanted instanceof Reply.Grants grants) {
      grants.all().forEach(Guard::giveBack);
    } else if (unwanted instanceof Reply.SegmentGrant segment) {
      giveBack(segment.grant());
    } else if (unwanted instanceof MultiGuard several) {
      several.guards().forEach(Guard::giveBack);
    } else if (unwanted instanceof Segment segment) {
      giveBack(segment.guard());
    }
  }

  private static void giveBack(long number) {
    Job.begin(null, new Request(Verb.BEGIN_RELEASE, number), outcome -> outcome, null)
        .exceptionally(error -> new Request(Verb.FORGET, number).ask());
  }

  /** Gives several back in one write: the outcome of each, or its failure. */
  static List<Object> releaseAll(List<Guard> guards, boolean ofBlock) {
    Verb verb = Threads.isVirtual() ? Verb.BEGIN_RELEASE_ALL : Verb.RELEASE_ALL;
    Object ended = Job.begin(null, all(verb, guards, ofBlock), outcome -> outcome, null).await();
    return endings(guards, ended);
  }

  static CompletableFuture<List<Object>> releaseAllAsync(Client client, List<Guard> guards) {
    Request request = all(Verb.BEGIN_RELEASE_ALL, guards, false);
    return Job.begin(client.executor, request, outcome -> endings(guards, outcome), null);
  }

  private static Request all(Verb verb, List<Guard> guards, boolean ofBlock) {
    Request request = new Request(verb).flag(ofBlock).count(guards.size());
    guards.forEach(guard -> request.number(guard.number));
    return request;
  }

  private static List<Object> endings(List<Guard> guards, Object ended) {
    List<Object> all = new ArrayList<>();
    for (Object each : ((Reply.Endings) ended).all()) {
      Guard guard = guards.get(all.size());
      if (each instanceof Reply.Ending ending) {
        all.add(guard.ended(ending).outcome());
      } else {
        guard.over();
        all.add(guard.named(each));
      }
    }
    return all;
  }

  @Override
  public String toString() {
    State state = state();
    String how = state.why() != null ? "lost: " + state.why().code()
        : state.isHeld() ? "held, " + state.remaining().toMillis() + " ms left" : "released";
    return "Guard[" + name + " token " + token + ", " + how + "]";
  }
}
