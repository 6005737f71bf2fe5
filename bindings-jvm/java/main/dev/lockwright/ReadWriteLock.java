package dev.lockwright;

import java.util.Map;

/**
 * Many readers at once, or one writer; first come, first served. {@link #readLock} and {@link #writeLock} are locks of {@code
 * java.util.concurrent}, by thread; {@link #read} and {@link #write} give guards, which can be downgraded and upgraded. Neither part is
 * reentrant: a thread that waits for itself gets {@link LockException.Deadlock}.
 */
public final class ReadWriteLock extends Options<ReadWriteLock> implements java.util.concurrent.locks.ReadWriteLock {
  private final Client client;
  private final String name;

  ReadWriteLock(Client client, String name, Map<String, Object> options) {
    super(options);
    this.client = client;
    this.name = name;
  }

  @Override
  ReadWriteLock with(Map<String, Object> options) {
    return new ReadWriteLock(client, name, options);
  }

  /** A reader's part, which may be held by many. */
  public Lock read() {
    return new Lock(client, Lock.Part.READ, name, 1, 1, options);
  }

  /** The writer's part. */
  public Lock write() {
    return new Lock(client, Lock.Part.WRITE, name, 1, 1, options);
  }

  @Override
  public java.util.concurrent.locks.Lock readLock() {
    return new PartLock(read());
  }

  @Override
  public java.util.concurrent.locks.Lock writeLock() {
    return new PartLock(write());
  }

  private static final class PartLock extends HeldByThread {
    PartLock(Lock part) {
      super(part);
    }
  }

  @Override
  public String toString() {
    return "ReadWriteLock[" + name + " on " + client.address() + "]";
  }
}
