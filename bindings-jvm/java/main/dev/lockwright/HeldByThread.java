package dev.lockwright;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;

/**
 * A lock as {@link java.util.concurrent.locks.Lock} has it: what the calling thread took, only that thread unlocks. A thread that ends
 * while it holds one is not waited for: the lease ends.
 */
abstract class HeldByThread implements java.util.concurrent.locks.Lock {
  final Lock lock;
  private final String key;

  /** What is held by locks of the same {@code key} belongs together. */
  HeldByThread(Lock lock, String key) {
    this.lock = lock;
    this.key = key;
  }

  private Deque<Guard> mine() {
    return lock.client.held.get().getOrDefault(key, new ArrayDeque<>(0));
  }

  private boolean took(Guard guard) {
    if (guard == null) {
      return false;
    }
    if (guard.depth() < 0) {
      guard.release();
      throw new Error("Maximum lock count exceeded");
    }
    lock.client.held.get().computeIfAbsent(key, name -> new ArrayDeque<>()).push(guard);
    return true;
  }

  /** Waits for the lock, as long as it takes and whatever interrupts. */
  @Override
  public void lock() {
    took(lock.acquireUninterruptibly());
  }

  /** Waits for the lock, as long as it takes. */
  @Override
  public void lockInterruptibly() throws InterruptedException {
    check();
    took(lock.acquireInterruptibly(Request.FOR_EVER));
  }

  @Override
  public boolean tryLock() {
    return took(lock.tryAcquire());
  }

  @Override
  public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
    return tryLock(Duration.of(Math.max(0, time), unit.toChronoUnit()));
  }

  /** As {@link #tryLock(long, TimeUnit)}. */
  public boolean tryLock(Duration time) throws InterruptedException {
    check();
    try {
      return took(lock.acquireInterruptibly(time));
    } catch (LockException.Timeout taken) {
      return false;
    }
  }

  private static void check() throws InterruptedException {
    if (Thread.interrupted()) {
      throw new InterruptedException();
    }
  }

  /**
   * Gives it back.
   *
   * @throws IllegalMonitorStateException when this thread does not hold it
   * @throws LockException.Lost when it was lost before
   */
  @Override
  public void unlock() {
    Guard guard = mine().poll();
    if (guard == null) {
      throw new IllegalMonitorStateException("this thread does not hold lock \"" + lock.name() + "\"");
    }
    if (mine().isEmpty()) {
      Map<String, Deque<Guard>> all = lock.client.held.get();
      all.remove(key);
      if (all.isEmpty()) {
        lock.client.held.remove();
      }
    }
    guard.close();
  }

  /** There are none: what is told by one process would not be heard by another. */
  @Override
  public Condition newCondition() {
    throw new UnsupportedOperationException("a condition would be heard in this process only; use a latch, a barrier or your store");
  }

  /** Whether the calling thread certainly holds it at this moment. */
  public boolean isHeldByCurrentThread() {
    Guard guard = mine().peek();
    return guard != null && guard.isHeld();
  }

  /** How many times the calling thread holds it. */
  public int getHoldCount() {
    return mine().size();
  }

  /** What the calling thread holds, for its token and its loss; null where it holds nothing. */
  public Guard guard() {
    return mine().peek();
  }

  @Override
  public String toString() {
    return getClass().getSimpleName() + "[" + lock.name() + " on " + lock.client.address() + "]";
  }
}
