package dev.lockwright;

import java.util.Objects;

/**
 * A lock that the thread which holds it may take again, through any such lock of that name of its client. It behaves as {@link
 * java.util.concurrent.locks.ReentrantLock}, over all processes; {@code client.lock(name).fair()} given to {@link #with} makes it fair.
 *
 * <p>Each virtual thread is a thread of its own. In a pool, also a {@link java.util.concurrent.ForkJoinPool}, the owner is the worker that
 * runs the task, and what continues a {@code CompletableFuture} runs in whatever thread completes it: what such a task or continuation
 * takes, it gives back itself before it ends. Where a lock is to go from one to the other, there is {@link Lock#acquireAsync()}, whose
 * guard belongs to no thread.
 */
public final class ReentrantLock extends HeldByThread {
  ReentrantLock(Lock lock) {
    super(lock);
  }

  /** The same with other options: {@code client.reentrantLock("x").with(client.lock("x").ttl("10s"))}. */
  public ReentrantLock with(Lock options) {
    return new ReentrantLock(Objects.requireNonNull(options, "options").reentrant(true));
  }

  /** Whether anybody holds it at this moment, in any process. */
  public boolean isLocked() {
    return isHeldByCurrentThread() || lock.inspect().holder() != null;
  }
}
