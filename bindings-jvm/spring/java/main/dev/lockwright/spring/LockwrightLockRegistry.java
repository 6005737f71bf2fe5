package dev.lockwright.spring;

import dev.lockwright.Client;
import dev.lockwright.Guard;
import dev.lockwright.Lock;
import dev.lockwright.ReentrantLock;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.RenewableLockRegistry;

/**
 * Locks for Spring Integration: that of a key is {@link Client#reentrantLock} of the same name. All are renewed while they are held;
 * to renew one by hand makes its lease last longer.
 */
public final class LockwrightLockRegistry implements RenewableLockRegistry<DistributedLock> {
  private final Client client;

  /** One of a client's locks. */
  public LockwrightLockRegistry(Client client) {
    this.client = client;
  }

  /**
   * The lock of a key.
   *
   * @param key a text, a number or a UUID
   * @throws IllegalArgumentException for anything else, which could have another text in another process
   */
  @Override
  public DistributedLock obtain(Object key) {
    return new KeyLock(name(key));
  }

  private static String name(Object key) {
    if (key instanceof CharSequence || key instanceof Number || key instanceof UUID) {
      return key.toString();
    }
    throw new IllegalArgumentException("a lock's key is a text, a number or a UUID, not " + key);
  }

  @Override
  public void renewLock(Object key) {
    held(key);
  }

  @Override
  public void renewLock(Object key, Duration ttl) {
    held(key).extend(ttl);
  }

  private Guard held(Object key) {
    Guard guard = client.reentrantLock(name(key)).guard();
    if (guard == null || !guard.isHeld()) {
      throw new IllegalStateException("this thread does not hold the lock of key " + key);
    }
    return guard;
  }

  private final class KeyLock implements DistributedLock {
    private final Lock plain;
    private final ReentrantLock lock;

    KeyLock(String name) {
      plain = client.lock(name);
      lock = client.reentrantLock(name);
    }

    private ReentrantLock lasting(Duration ttl) {
      return lock.with(plain.ttl(ttl));
    }

    @Override
    public void lock() {
      lock.lock();
    }

    @Override
    public void lock(Duration ttl) {
      lasting(ttl).lock();
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
      lock.lockInterruptibly();
    }

    @Override
    public boolean tryLock() {
      return lock.tryLock();
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
      return lock.tryLock(time, unit);
    }

    @Override
    public boolean tryLock(Duration time, Duration ttl) throws InterruptedException {
      return lasting(ttl).tryLock(time);
    }

    @Override
    public void unlock() {
      lock.unlock();
    }

    @Override
    public Condition newCondition() {
      return lock.newCondition();
    }

    @Override
    public String toString() {
      return lock.toString();
    }
  }
}
