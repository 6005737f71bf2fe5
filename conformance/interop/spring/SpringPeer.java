import com.google.gson.JsonObject;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;
import org.springframework.integration.support.locks.DistributedLock;

/** Spring Integration's RedisLockRegistry, by pub/sub, or by spinning where that is the argument. */
final class SpringPeer extends Peer {
  /** The name's part before the first colon, or else what the address says is put before every name. */
  private static final String PREFIX = "prefix=";

  private final RedisLockType type;
  private final Map<String, LettuceConnectionFactory> factories = new ConcurrentHashMap<>();
  private final Map<String, String> prefixes = new ConcurrentHashMap<>();
  private final Map<String, RedisLockRegistry> registries = new ConcurrentHashMap<>();

  private SpringPeer(RedisLockType type) {
    this.type = type;
  }

  public static void main(String[] args) throws Exception {
    boolean spins = args.length > 0 && args[0].equals("spin");
    new SpringPeer(spins ? RedisLockType.SPIN_LOCK : RedisLockType.PUB_SUB_LOCK).main();
  }

  @Override
  String language() {
    return "spring";
  }

  @Override
  void open(String client, String uri) {
    java.net.URI address = java.net.URI.create(uri);
    RedisStandaloneConfiguration where = new RedisStandaloneConfiguration(address.getHost(), address.getPort());
    LettuceConnectionFactory factory = new LettuceConnectionFactory(where);
    factory.afterPropertiesSet();
    factory.start();
    factories.put(client, factory);
    String query = String.valueOf(address.getQuery());
    int at = query.indexOf(PREFIX);
    prefixes.put(client, at < 0 ? "" : query.substring(at + PREFIX.length()).split("&")[0]);
  }

  @Override
  void close() {
    registries.values().forEach(RedisLockRegistry::destroy);
    registries.clear();
    factories.values().forEach(LettuceConnectionFactory::destroy);
    factories.clear();
  }

  /** A waiter that is told of no release looks again after the registry's expireAfter; each lock has a lease of its own here. */
  private static final long LOOK_MS = 1000;

  /** One for each client, as programs have it: its threads exclude one another by themselves. */
  private RedisLockRegistry registry(String client, String registryKey) {
    return registries.computeIfAbsent(client + ' ' + registryKey, any -> {
      RedisLockRegistry registry = new RedisLockRegistry(factories.get(client), registryKey, LOOK_MS);
      registry.setRedisLockType(type);
      registry.setIdleBetweenTries(Duration.ofMillis(20));
      return registry;
    });
  }

  private String key(JsonObject command) {
    return prefixes.get(command.get("client").getAsString()) + command.get("lock").getAsString();
  }

  @Override
  Held acquire(JsonObject command, double timeout) throws Exception {
    String key = key(command);
    String registryKey = key.substring(0, key.indexOf(':'));
    String path = key.substring(registryKey.length() + 1);
    String client = command.get("client").getAsString();
    RedisLockRegistry registry = registry(client, registryKey);
    StringRedisTemplate template = new StringRedisTemplate(factories.get(client));
    Hold hold = new Hold(registry, registry.obtain(path), path, key, template);
    return hold.take(seconds(command, "ttl", TTL), timeout);
  }

  /** It has no such call: an operator deletes the key. */
  @Override
  boolean force(JsonObject command) {
    String client = command.get("client").getAsString();
    return new StringRedisTemplate(factories.get(client)).delete(key(command));
  }

  private static final class Hold extends SpringHeld {
    private final RedisLockRegistry registry;
    private final String path;
    private final String key;
    private final StringRedisTemplate template;

    Hold(RedisLockRegistry registry, DistributedLock lock, String path, String key, StringRedisTemplate template) {
      super(lock);
      this.registry = registry;
      this.path = path;
      this.key = key;
      this.template = template;
    }

    /** It has no such call: only a renewal tells. This one changes nothing, as it is for what is left anyway. */
    @Override
    boolean isHeld() {
      Long left = template.getExpire(key, TimeUnit.MILLISECONDS);
      try {
        return left != null && left > 0 && in(thread, () -> {
          registry.renewLock(path, Duration.ofMillis(left));
          return true;
        });
      } catch (Exception notHeld) {
        return false;
      }
    }

    @Override
    void renew(Duration ttl) {
      registry.renewLock(path, ttl);
    }
  }
}
