import java.net.URI;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.Lock;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;

/** Spring Integration's {@code RedisLockRegistry}, by pub/sub as its documentation recommends for contended locks. */
final class SpringContender extends Blocking {
  private static final long EXPIRES_MS = 30_000;

  private LettuceConnectionFactory connections;
  private RedisLockRegistry registry;

  private SpringContender() {
    super("Spring RedisLockRegistry", "peer", List.of("S1", "S5", "S12"), "eval", "evalsha");
  }

  public static void main(String[] words) throws Exception {
    Contender.main(words, new SpringContender());
  }

  @Override
  Map<String, String> versions() {
    return version("Spring Integration", RedisLockRegistry.class);
  }

  @Override
  void connect(String url) {
    URI address = URI.create(url);
    connections = new LettuceConnectionFactory(address.getHost(), address.getPort());
    connections.afterPropertiesSet();
    connections.start();
    registry = new RedisLockRegistry(connections, "bench", EXPIRES_MS);
    registry.setRedisLockType(RedisLockType.PUB_SUB_LOCK);
  }

  @Override
  void disconnect() {
    registry.destroy();
    connections.destroy();
  }

  @Override
  Held held(String key, int task) {
    Lock lock = registry.obtain(key);
    return new Held() {
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
}
