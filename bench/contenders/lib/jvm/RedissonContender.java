import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** What Redisson has: locks, also on several servers, a read/write lock, semaphores. */
final class RedissonContender {
  /** How many permits there are, and for how long one is leased where it is: as long as a lock. */
  private static final int PERMITS = 4;
  private static final long LEASE_SECONDS = 30;

  private static final String CLUSTER = "redis+cluster://";

  /** A lock's owner is a thread's number. */
  private static final AtomicLong OWNERS = new AtomicLong();

  public static void main(String[] words) throws Exception {
    var version = Contender.version("Redisson", Redisson.class);
    var requests = List.of("evalsha", "eval");
    var library = new Contender.Library<>(RedissonContender::dial, RedissonClient::shutdown, requests, version);
    var quorum = new Contender.Library<>(
        RedissonContender::dialAll, nodes -> nodes.forEach(RedissonClient::shutdown), requests, version);
    Contender.main(
        words,
        new Blocking<>("Redisson RLock", "peer", List.of("S1", "S1C", "S5", "S5C", "S12"), library,
            (client, key, task) -> Blocking.of(client.getLock(key))),
        new Blocking<>("RedissonRedLock", "peer", List.of("S7"), quorum,
            (nodes, key, task) -> Blocking.of(onAll(nodes, key))),
        new Blocking<>("Redisson RFairLock", "peer", List.of("S5", "S5C"), library,
            (client, key, task) -> Blocking.of(client.getFairLock(key))),
        new Blocking<>("Redisson RReadWriteLock", "peer", List.of("S1R", "S5R"), library, RedissonContender::readWrite),
        new Blocking<>("Redisson RSemaphore", "peer", List.of("S1P", "S5P"), library,
            (client, key, task) -> of(client.getSemaphore(key + ":permits"))),
        new Blocking<>("Redisson RPermitExpirableSemaphore", "peer", List.of("S1P", "S5P"), library, RedissonContender::leased),
        new Awaited<>("Redisson RLock, futures", "peer", List.of("S1C", "S2", "S5", "S5C"), library,
            (client, key) -> awaited(client.getLock(key), OWNERS.incrementAndGet())));
  }

  private static RedissonClient dial(String url) {
    Config config = new Config();
    if (url.startsWith(CLUSTER)) {
      Stream<String> nodes = Stream.of(url.substring(CLUSTER.length()).split(","));
      config.useClusterServers().addNodeAddress(nodes.map(node -> "redis://" + node).toArray(String[]::new));
    } else {
      config.useSingleServer().setAddress(url);
    }
    return Redisson.create(config);
  }

  private static List<RedissonClient> dialAll(String url) {
    return Stream.of(url.split(" ")).map(RedissonContender::dial).toList();
  }

  private static RLock onAll(List<RedissonClient> nodes, String key) {
    return new RedissonRedLock(nodes.stream().map(node -> node.getLock(key)).toArray(RLock[]::new));
  }

  private static Awaited.Held<Long> awaited(RLock lock, long owner) {
    return new Awaited.Held<>() {
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

  /** The first of a crowd writes. */
  private static Blocking.Held readWrite(RedissonClient client, String key, int task) {
    RReadWriteLock lock = client.getReadWriteLock(key + ":rw");
    return Blocking.of(task == 0 ? lock.writeLock() : lock.readLock());
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
