import com.google.gson.JsonObject;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's RLock, and its fair lock where {@code fair} is asked for. */
final class RedissonPeer extends Peer {
  private final Map<String, RedissonClient> clients = new ConcurrentHashMap<>();

  public static void main(String[] args) throws Exception {
    new RedissonPeer().main();
  }

  @Override
  String language() {
    return "redisson";
  }

  @Override
  void open(String client, String uri) {
    Config config = new Config();
    config.setThreads(2).setNettyThreads(2);
    config.useSingleServer()
        .setAddress(uri.split("\\?")[0])
        .setConnectionMinimumIdleSize(1)
        .setSubscriptionConnectionMinimumIdleSize(1);
    clients.put(client, Redisson.create(config));
  }

  private RLock lock(JsonObject command) {
    RedissonClient client = clients.get(command.get("client").getAsString());
    String name = command.get("lock").getAsString();
    return is(command, "fair") ? client.getFairLock(name) : client.getLock(name);
  }

  @Override
  Held acquire(JsonObject command, double timeout) throws Exception {
    RLock lock = lock(command);
    double ttl = seconds(command, "ttl", TTL);
    // Its watchdog is for holders that name no lease; of the two only that with a lease ends when a test says.
    boolean renews = !command.has("ttl");
    Hold hold = new Hold(lock, clients.get(command.get("client").getAsString()));
    boolean got = in(hold.thread, () -> {
      long lease = renews ? -1 : Math.round(ttl * 1000);
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

  @Override
  boolean force(JsonObject command) {
    return lock(command).forceUnlock();
  }

  private static final class Hold extends Held {
    private final RLock lock;
    private final RedissonClient client;

    Hold(RLock lock, RedissonClient client) {
      this.lock = lock;
      this.client = client;
    }

    @Override
    boolean release() {
      try {
        in(thread, () -> {
          lock.unlock();
          return null;
        });
        return true;
      } catch (Exception notHeld) {
        return false;
      }
    }

    @Override
    boolean isHeld() {
      try {
        return in(thread, lock::isHeldByCurrentThread);
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
      client.getKeys().expire(lock.getName(), Math.round(ttl * 1000), TimeUnit.MILLISECONDS);
    }
  }
}
