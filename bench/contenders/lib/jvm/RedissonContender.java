import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** What Redisson has: locks, a read/write lock, semaphores. */
final class RedissonContender {
  private static final String[] REQUESTS = {"evalsha", "eval"};

  /** How many permits there are, and for how long one is leased where it is: as long as a lock. */
  private static final int PERMITS = 4;
  private static final long LEASE_SECONDS = 30;

  public static void main(String[] words) throws Exception {
    Contender.main(
        words,
        new Threads("Redisson RLock", List.of("S1", "S5", "S12"), (client, key, task) -> of(client.getLock(key))),
        new Threads("Redisson RFairLock", List.of("S5"), (client, key, task) -> of(client.getFairLock(key))),
        new Threads("Redisson RReadWriteLock", List.of("S1R", "S5R"), RedissonContender::readWrite),
        new Threads("Redisson RSemaphore", List.of("S1P", "S5P"), (client, key, task) -> of(client.getSemaphore(key + ":permits"))),
        new Threads("Redisson RPermitExpirableSemaphore", List.of("S1P", "S5P"), RedissonContender::leased),
        new Futures());
  }

  private static RedissonClient dial(String url) {
    Config config = new Config();
    config.useSingleServer().setAddress(url);
    return Redisson.create(config);
  }

  private static Map<String, String> library() {
    return Contender.version("Redisson", Redisson.class);
  }

  /** What the task of that number uses of a client. */
  private interface Use {
    Blocking.Held of(RedissonClient client, String key, int task);
  }

  private static final class Threads extends Blocking {
    private final Use use;
    private RedissonClient client;

    Threads(String name, List<String> rows, Use use) {
      super(name, "peer", rows, REQUESTS);
      this.use = use;
    }

    @Override
    Map<String, String> versions() {
      return library();
    }

    @Override
    void connect(String url) {
      client = dial(url);
    }

    @Override
    void disconnect() {
      client.shutdown();
    }

    @Override
    Held held(String key, int task) {
      return use.of(client, key, task);
    }
  }

  private static final class Futures extends Awaited<Long> {
    /** A lock's owner is a thread's number. */
    private final AtomicLong owners = new AtomicLong();
    private RedissonClient client;

    Futures() {
      super("Redisson RLock, futures", "peer", List.of("S2", "S5"), REQUESTS);
    }

    @Override
    Map<String, String> versions() {
      return library();
    }

    @Override
    void connect(String url) {
      client = dial(url);
    }

    @Override
    void disconnect() {
      client.shutdown();
    }

    @Override
    Held<Long> held(String key) {
      RLock lock = client.getLock(key);
      long owner = owners.incrementAndGet();
      return new Held<>() {
        @Override
        public CompletionStage<Long> acquire() {
          return lock.lockAsync(owner).thenApply(none -> owner);
        }

        @Override
        public CompletionStage<?> release(Long got) {
          return lock.unlockAsync(got);
        }
      };
    }
  }

  private static Blocking.Held of(RLock lock) {
    return new Blocking.Held() {
      @Override
      public void acquire() {
        lock.lock();
      }

      @Override
      public void release() {
        lock.unlock();
      }
    };
  }

  /** The first of a crowd writes. */
  private static Blocking.Held readWrite(RedissonClient client, String key, int task) {
    RReadWriteLock lock = client.getReadWriteLock(key + ":rw");
    return of(task == 0 ? lock.writeLock() : lock.readLock());
  }

  private static Blocking.Held of(RSemaphore semaphore) {
    semaphore.trySetPermits(PERMITS);
    return new Blocking.Held() {
      @Override
      public void acquire() throws InterruptedException {
        semaphore.acquire();
      }

      @Override
      public void release() {
        semaphore.release();
      }
    };
  }

  private static Blocking.Held leased(RedissonClient client, String key, int task) {
    RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(key + ":leased");
    semaphore.trySetPermits(PERMITS);
    return new Blocking.Held() {
      private String permit;

      @Override
      public void acquire() throws InterruptedException {
        permit = semaphore.acquire(LEASE_SECONDS, TimeUnit.SECONDS);
      }

      @Override
      public void release() {
        semaphore.release(permit);
      }
    };
  }
}
