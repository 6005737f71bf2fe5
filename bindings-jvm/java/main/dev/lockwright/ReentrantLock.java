package dev.lockwright;

/**
 * A lock that the thread which holds it may take again, through any such lock of that name of its client. It behaves as {@link
 * java.util.concurrent.locks.ReentrantLock}, over all processes.
 */
public final class ReentrantLock extends HeldByThread {
  ReentrantLock(Lock lock) {
    super(lock, lock.name());
  }

  /** The same with other options: {@code client.reentrantLock("x").with(client.lock("x").ttl("10s"))}. */
  public ReentrantLock with(Lock options) {
    return new ReentrantLock(options.reentrant(true));
  }

  /** Whether anybody holds it at this moment, in any process. */
  public boolean isLocked() {
    return isHeldByCurrentThread() || lock.inspect().holder() != null;
  }
}
