import java.time.Duration;
import org.springframework.integration.support.locks.DistributedLock;

/** A hold of a lock of some registry of Spring Integration's. */
abstract class SpringHeld extends Peer.Held {
  private final DistributedLock lock;

  SpringHeld(DistributedLock lock) {
    this.lock = lock;
  }

  /** Has its registry renew it. */
  abstract void renew(Duration ttl);

  /** This one, or nothing where it is not had in time; a timeout below zero is none. */
  final SpringHeld take(double ttl, double timeout) throws Exception {
    Duration lease = Peer.span(ttl);
    boolean got = Peer.in(thread, () -> {
      if (timeout < 0) {
        lock.lock(lease);
        until = Peer.now() + (long) (ttl * 1e9);
        return true;
      }
      long asked = Peer.now();
      boolean had = lock.tryLock(Peer.span(timeout), lease);
      // It may have waited meanwhile, so this is early rather than late.
      until = asked + (long) (ttl * 1e9);
      return had;
    });
    if (!got) {
      thread.shutdown();
    }
    return got ? this : null;
  }

  @Override
  final boolean release() {
    try {
      Peer.in(thread, () -> {
        lock.unlock();
        return null;
      });
      return true;
    } catch (Exception notHeld) {
      return false;
    }
  }

  @Override
  final void extend(double ttl) throws Peer.Failed {
    try {
      Peer.in(thread, () -> {
        renew(Peer.span(ttl));
        return null;
      });
    } catch (Exception notHeld) {
      throw new Peer.Failed("lost", notHeld.getMessage());
    }
  }
}
