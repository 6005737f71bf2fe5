package dev.lockwright;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;

/**
 * A lock as {@link java.util.concurrent.locks.Lock} has it: what the calling thread took, only that thread unlocks. A thread that ends
 * while it holds one is not waited for: the lease ends.
 *
 * <p>Other than a lock of one process it can be lost: {@link #guard} tells when, and {@link #unlock} at the latest. Each method that asks
 * the store throws {@link LockException.Unavailable} where that does not answer, and {@link LockException.Closed} once the client is closed.
 */
abstract class HeldByThread implements java.util.concurrent.locks.Lock {
  final Lock lock;
  private final Lock.Key key;

  HeldByThread(Lock lock) {
    this.lock = lock;
    key = lock.key();
  }

  private Deque<Guard> mine() {
    return lock.client.held().getOrDefault(key, new ArrayDeque<>(0));
  }

  private boolean took(Guard guard) {
    if (guard == null) {
      return false;
    }
    if (guard.depth() < 0) {
      guard.release();
      throw new Error("Maximum lock count exceeded");
    }
    lock.client.held().computeIfAbsent(key, first -> new ArrayDeque<>()).push(guard);
    return true;
  }

  /**
   * Waits for the lock, as long as it takes and whatever interrupts: the interrupt status is set then. The option {@code timeout} is not
   * looked at.
   *
   * @throws LockException.Deadlock when this thread would wait for itself
   */
  @Override
  public void lock() {
    took(lock.acquireUninterruptibly());
  }

  /**
   * As {@link #lock()}, but an interrupt ends it.
   *
   * @throws InterruptedException when the thread was interrupted before, or while it waited; the status is clear, and nothing is held.
   *     Where the lock was granted first it returns, with the status set
   */
  @Override
  public void lockInterruptibly() throws InterruptedException {
    check();
    took(lock.acquireInterruptibly(Request.FOR_EVER));
  }

  /** Takes the lock if it is free, though others may wait for it; whether it did. An interrupt changes nothing. */
  @Override
  public boolean tryLock() {
    return took(lock.tryAcquire());
  }

  /**
   * Waits for the lock for at most {@code time}, which is none where that is 0 or less; whether it has it.
   *
   * @throws InterruptedException as {@link #lockInterruptibly}
   */
  @Override
  public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
    return tryWithin(Request.patience(time, unit));
  }

  /** As {@link #tryLock(long, TimeUnit)}. */
  public boolean tryLock(Duration time) throws InterruptedException {
    return tryWithin(Request.patience(Objects.requireNonNull(time, "time")));
  }

  private boolean tryWithin(Object limit) throws InterruptedException {
    check();
    try {
      return took(lock.acquireInterruptibly(limit));
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
   * Gives it back, as often as it was taken. Whether the thread is interrupted does not matter.
   *
   * @throws IllegalMonitorStateException when this thread does not hold it
   * @throws LockException.Lost when it was lost before, also by the end of the client
   */
  @Override
  public void unlock() {
    Deque<Guard> mine = mine();
    Guard guard = mine.poll();
    if (guard == null && lock.client.isClosed()) {
      throw LockException.lost(lock.name(), lock.client.address(), LossReason.CLOSED);
    }
    if (guard == null) {
      throw new IllegalMonitorStateException("this thread does not hold lock \"" + lock.name() + "\"");
    }
    if (mine.isEmpty()) {
      lock.client.held().remove(key);
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
