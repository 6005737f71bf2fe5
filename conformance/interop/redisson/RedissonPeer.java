import com.google.gson.JsonObject;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's RLock, its fair lock where {@code fair} is asked for, its read/write lock and its semaphore whose permits have leases. By the
 * {@code format}, {@code fenced} or {@code counted}, its RFencedLock and RSemaphore. On a cluster the same; on several servers its
 * RedissonRedLock of a lock of that name on each.
 */
final class RedissonPeer extends Peer {
  private final Map<String, List<RedissonClient>> clients = new ConcurrentHashMap<>();

  public static void main(String[] args) throws Exception {
    new RedissonPeer().main();
  }

  private static boolean isOf(JsonObject command, String format) {
    return command.has("format") && command.get("format").getAsString().equals(format);
  }

  @Override
  String language() {
    return "redisson";
  }

  @Override
  void open(String client, String uri) {
    List<RedissonClient> nodes = new ArrayList<>();
    for (String address : uri.split("\\?")[0].split(" ")) {
      Config config = new Config();
      config.setThreads(2).setNettyThreads(2);
      if (address.startsWith("redis+cluster://")) {
        reach(config, URI.create(address));
      } else {
        config.useSingleServer()
            .setAddress(address)
            .setConnectionMinimumIdleSize(1)
            .setSubscriptionConnectionMinimumIdleSize(1);
      }
      nodes.add(Redisson.create(config));
    }
    clients.put(client, nodes);
  }

  private static void reach(Config config, URI cluster) {
    String[] login = cluster.getAuthority().split("@");
    config.useClusterServers()
        // Redisson 3.50 has it nowhere else.
        .setPassword(login[0].substring(1))
        .addNodeAddress(Stream.of(login[1].split(",")).map(node -> "redis://" + node).toArray(String[]::new))
        .setMasterConnectionMinimumIdleSize(1)
        .setSlaveConnectionMinimumIdleSize(1)
        .setSubscriptionConnectionMinimumIdleSize(1);
  }

  private List<RedissonClient> nodes(JsonObject command) {
    return clients.get(command.get("client").getAsString());
  }

  @Override
  void close() {
    clients.values().forEach(nodes -> nodes.forEach(node -> node.shutdown(0, 2, TimeUnit.SECONDS)));
    clients.clear();
  }

  private RLock lock(JsonObject command) {
    RedissonClient client = nodes(command).get(0);
    String name = command.get("lock").getAsString();
    if (nodes(command).size() > 1) {
      return new RedissonRedLock(nodes(command).stream().map(node -> node.getLock(name)).toArray(RLock[]::new));
    }
    if (command.has("share")) {
      boolean reads = command.get("share").getAsString().equals("read");
      return reads ? client.getReadWriteLock(name).readLock() : client.getReadWriteLock(name).writeLock();
    }
    if (isOf(command, "fenced")) {
      return client.getFencedLock(name);
    }
    return is(command, "fair") ? client.getFairLock(name) : client.getLock(name);
  }

  @Override
  Held acquire(JsonObject command, double timeout) throws Exception {
    if (command.has("permits")) {
      return permits(command, timeout);
    }
    RLock lock = lock(command);
    double ttl = seconds(command, "ttl", TTL);
    // Its watchdog is for holders that name no lease; of the two only that with a lease ends when a test says.
    boolean renews = !command.has("ttl");
    Hold hold = new Hold(lock, nodes(command), command.get("lock").getAsString());
    if (command.has("share") && command.get("share").getAsString().equals("write")) {
      hold.units = 1 << 30;
    }
    boolean got = in(hold.thread, () -> {
      long lease = renews ? -1 : Math.round(ttl * 1000);
      if (lock instanceof RFencedLock fenced) {
        Long token = fence(fenced, timeout, lease, hold, ttl);
        hold.token = token == null ? 0 : token;
        return token != null;
      }
      if (timeout < 0) {
        lock.lock(lease, TimeUnit.MILLISECONDS);
        hold.until = now() + (long) (ttl * 1e9);
        return true;
      }
      long asked = now();
      boolean had = timeout == 0 && renews
          ? lock.tryLock()
          : lock.tryLock(Math.round(timeout * 1000), lease, TimeUnit.MILLISECONDS);
      // It may have waited meanwhile, so this is early rather than late.
      hold.until = asked + (long) (ttl * 1e9);
      return had;
    });
    if (!got) {
      hold.thread.shutdown();
    }
    return got ? hold : null;
  }

  private static Long fence(RFencedLock lock, double timeout, long lease, Hold hold, double ttl) throws Exception {
    long asked = now();
    Long token;
    if (timeout < 0) {
      token = lock.lockAndGetToken(lease, TimeUnit.MILLISECONDS);
      asked = now();
    } else {
      // Its tryLockAndGetToken() without arguments waits for ever.
      token = lock.tryLockAndGetToken(Math.round(timeout * 1000), lease, TimeUnit.MILLISECONDS);
    }
    hold.until = asked + (long) (ttl * 1e9);
    return token;
  }

  private Held permits(JsonObject command, double timeout) throws Exception {
    RedissonClient client = nodes(command).get(0);
    String name = command.get("lock").getAsString();
    int permits = command.get("permits").getAsInt();
    int take = command.has("take") && !command.get("take").isJsonNull() ? command.get("take").getAsInt() : 1;
    long wait = timeout < 0 ? Long.MAX_VALUE / 1_000_000 : Math.round(timeout * 1000);
    if (isOf(command, "counted")) {
      RSemaphore semaphore = client.getSemaphore(name);
      semaphore.trySetPermits(permits);
      boolean got = timeout == 0 ? semaphore.tryAcquire(take)
          : semaphore.tryAcquire(take, java.time.Duration.ofMillis(Math.min(wait, 3_600_000)));
      return got ? new Counted(semaphore, take) : null;
    }
    RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(name);
    semaphore.trySetPermits(permits);
    // A permit without a lease never ends.
    double ttl = command.has("ttl") ? seconds(command, "ttl", TTL) : TTL;
    long lease = command.has("ttl") ? Math.round(ttl * 1000) : -1;
    List<String> ids = semaphore.tryAcquire(take, Math.min(wait, 3_600_000), lease, TimeUnit.MILLISECONDS);
    return ids.isEmpty() ? null : new Leased(semaphore, ids, now() + (long) (ttl * 1e9));
  }

  /** Permits that are counted only, and never end. */
  private static final class Counted extends Held {
    private final RSemaphore semaphore;

    Counted(RSemaphore semaphore, int take) {
      this.semaphore = semaphore;
      units = take;
      until = now() + (long) (TTL * 1e9);
    }

    @Override
    boolean release() {
      semaphore.release((int) units);
      return true;
    }

    @Override
    boolean isHeld() {
      return true;
    }

    @Override
    void extend(double ttl) {}
  }

  /** Permits that have leases. */
  private static final class Leased extends Held {
    private final RPermitExpirableSemaphore semaphore;
    private final List<String> ids;

    Leased(RPermitExpirableSemaphore semaphore, List<String> ids, long until) {
      this.semaphore = semaphore;
      this.ids = ids;
      this.until = until;
      units = ids.size();
    }

    @Override
    boolean release() {
      return semaphore.tryRelease(ids) > 0;
    }

    @Override
    boolean isHeld() {
      try {
        return semaphore.getLeaseTime(ids.get(0)) != 0;
      } catch (RuntimeException gone) {
        return false;
      }
    }

    @Override
    void extend(double ttl) throws Failed {
      for (String id : ids) {
        if (!semaphore.updateLeaseTime(id, Math.round(ttl * 1000), TimeUnit.MILLISECONDS)) {
          throw new Failed("lost", "it is not held any more");
        }
      }
    }
  }

  @Override
  boolean force(JsonObject command) {
    return lock(command).forceUnlock();
  }

  private static final class Hold extends Held {
    private final RLock lock;
    private final List<RedissonClient> nodes;
    private final String name;

    Hold(RLock lock, List<RedissonClient> nodes, String name) {
      this.lock = lock;
      this.nodes = nodes;
      this.name = name;
    }

    @Override
    boolean release() {
      try {
        return in(thread, () -> {
          // Of several servers it hides what they say, so nobody is told that it was held no more.
          boolean held = nodes.size() == 1 || isHeldByMost();
          lock.unlock();
          return held;
        });
      } catch (Exception notHeld) {
        return false;
      }
    }

    @Override
    boolean isHeld() {
      try {
        return in(thread, this::isHeldByMost);
      } catch (Exception error) {
        return false;
      }
    }

    /** It has no such call; what its watchdog sends is said by hand. */
    @Override
    void extend(double ttl) throws Failed {
      if (!isHeld()) {
        throw new Failed("lost", "it is not held any more");
      }
      nodes.forEach(node -> node.getKeys().expire(name, Math.round(ttl * 1000), TimeUnit.MILLISECONDS));
    }

    /** A lock of several servers does not say so itself. */
    private boolean isHeldByMost() {
      if (nodes.size() == 1) {
        return lock.isHeldByCurrentThread();
      }
      return nodes.stream().filter(node -> node.getLock(name).isHeldByCurrentThread()).count() > nodes.size() / 2;
    }
  }
}
