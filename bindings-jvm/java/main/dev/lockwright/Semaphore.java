package dev.lockwright;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * So many at once. Its verbs are those of {@link java.util.concurrent.Semaphore}: any thread releases what any thread acquired through
 * this object. {@link #take} gives guards instead, which tell of their loss.
 */
public final class Semaphore extends Options<Semaphore> {
  private record Taken(int permits, long owner, Guard guard) {}

  private final Client client;
  private final String name;
  private final int permits;
  /** What was acquired through this object and not released yet. */
  private final Deque<Taken> held = new ArrayDeque<>();

  Semaphore(Client client, String name, int permits, Map<String, Object> options) {
    super(options);
    this.client = client;
    this.name = name;
    this.permits = permits;
  }

  @Override
  Semaphore with(Map<String, Object> options) {
    return new Semaphore(client, name, permits, options);
  }

  /** The lock whose holders have one permit each. */
  public Lock take() {
    return part(1);
  }

  /**
   * The lock whose holders have so many permits each, all or none.
   *
   * @throws LockException.InvalidConfig for less than 1, and more than there are
   */
  public Lock take(int count) {
    client.checked(permits, count);
    return part(count);
  }

  /** The same for whoever uses it at once, by which it is looked at as well. */
  private Lock part(int count) {
    return new Lock(client, Lock.Part.PERMITS, name, permits, Request.whole("lock", "take", count), options);
  }

  private boolean keep(int count, Guard guard) {
    if (guard == null) {
      return false;
    }
    synchronized (held) {
      held.push(new Taken(count, Owner.ofThread(), guard));
    }
    return true;
  }

  /**
   * Waits for a permit.
   *
   * @throws InterruptedException when the thread was interrupted before, or while it waited; the status is clear, and nothing is held
   * @throws LockException as {@link Lock#acquire()}: the options' {@code timeout} ends a wait
   */
  public void acquire() throws InterruptedException {
    acquire(1);
  }

  /** As {@link #acquire()}, for so many permits, all or none. */
  public void acquire(int count) throws InterruptedException {
    check();
    keep(count, part(count).acquireInterruptibly(null));
  }

  /** Waits for a permit, as long as it takes and whatever interrupts: the interrupt status is set then. */
  public void acquireUninterruptibly() {
    acquireUninterruptibly(1);
  }

  /** As {@link #acquireUninterruptibly()}, for so many permits, all or none. */
  public void acquireUninterruptibly(int count) {
    keep(count, part(count).acquireUninterruptibly());
  }

  /** Whether there was a permit, which the caller has now. Nothing is waited for, and an interrupt changes nothing. */
  public boolean tryAcquire() {
    return tryAcquire(1);
  }

  /** Whether there were so many permits, which the caller has now. */
  public boolean tryAcquire(int count) {
    return keep(count, part(count).tryAcquire());
  }

  /**
   * As {@link #tryAcquire()}, waiting for so long, which is not at all where that is 0 or less.
   *
   * @throws InterruptedException as {@link #acquire()}
   */
  public boolean tryAcquire(long time, TimeUnit unit) throws InterruptedException {
    return tryAcquire(1, time, unit);
  }

  /** As {@link #tryAcquire(int)}, waiting for so long. */
  public boolean tryAcquire(int count, long time, TimeUnit unit) throws InterruptedException {
    check();
    try {
      return keep(count, part(count).acquireInterruptibly(Request.patience(time, unit)));
    } catch (LockException.Timeout taken) {
      return false;
    }
  }

  private static void check() throws InterruptedException {
    if (Thread.interrupted()) {
      throw new InterruptedException();
    }
  }

  /** Gives a permit back. */
  public void release() {
    release(1);
  }

  /**
   * Gives so many permits back: what the calling thread acquired goes before what others did, and what one call acquired before what several
   * did.
   *
   * @throws LockException.NotOwned where what was acquired through this object does not make up that number: what one call acquired is
   *     given back together
   * @throws LockException.Lost when one was lost before; the others are given back
   */
  public void release(int count) {
    new MultiGuard(client, unpinned(count)).close();
  }

  private List<Guard> unpinned(int count) {
    synchronized (held) {
      long me = Owner.ofThread();
      List<Taken> mine = held.stream().filter(taken -> taken.owner == me).toList();
      List<Taken> found = makingUp(count, mine);
      if (found.isEmpty()) {
        found = makingUp(count, Stream.concat(mine.stream(), held.stream().filter(taken -> taken.owner != me)).toList());
      }
      if (found.isEmpty()) {
        throw new LockException.NotOwned("release", "this semaphore object did not acquire " + count + " permits that are still held");
      }
      found.forEach(held::remove);
      return found.stream().map(Taken::guard).toList();
    }
  }

  /** Those of {@code all} that have so many permits together: a single one where there is one, else the first; empty where there are none. */
  private static List<Taken> makingUp(int count, List<Taken> all) {
    if (count < 1 || all.stream().mapToLong(Taken::permits).sum() < count) {
      return List.of();
    }
    return all.stream().filter(taken -> taken.permits == count).findFirst().map(List::of).orElseGet(() -> several(count, all));
  }

  private static List<Taken> several(int count, List<Taken> all) {
    // By sum, the last of those that first made it up.
    Taken[] last = new Taken[count + 1];
    for (Taken taken : all) {
      for (int sum = count; last[count] == null && sum >= taken.permits; sum--) {
        if (last[sum] == null && (sum == taken.permits || last[sum - taken.permits] != null)) {
          last[sum] = taken;
        }
      }
    }
    List<Taken> found = new ArrayList<>();
    for (int left = count; left > 0 && last[left] != null; left -= last[left].permits) {
      found.add(last[left]);
    }
    return found;
  }

  /** How many permits are free at this moment, in all processes; less than 0 where more are held than a {@link #resize} left. */
  public int availablePermits() {
    Inspection seen = part(1).inspect();
    int all = seen.shared() == null || seen.shared().permits() == null ? permits : (int) (long) seen.shared().permits();
    if (seen.shared() == null) {
      return all;
    }
    long used = seen.shared().holders().stream().mapToLong(part -> Long.parseLong(part.holds().replaceAll("\\D.*", ""))).sum();
    return (int) (all - used);
  }

  /** It has so many permits from now on. What is held stays held. */
  public void resize(int permits) {
    part(1).handle().call("resize").count("resize", "permits", permits).get();
  }

  /** Who holds it, and how many wait for it. */
  public Inspection inspect() {
    return part(1).inspect();
  }

  @Override
  public String toString() {
    return "Semaphore[" + name + " on " + client.address() + "]";
  }
}
