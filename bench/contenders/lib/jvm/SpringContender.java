import java.net.URI;
import java.util.List;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;

/** Spring Integration's {@code RedisLockRegistry}, by pub/sub, which is its faster way where a lock is contended. */
final class SpringContender {
  private static final long EXPIRES_MS = 30_000;

  /** A registry and its connections. */
  private record Dialled(LettuceConnectionFactory connections, RedisLockRegistry registry) {
    static Dialled to(String url) {
      URI address = URI.create(url);
      var connections = new LettuceConnectionFactory(address.getHost(), address.getPort());
      connections.afterPropertiesSet();
      connections.start();
      var registry = new RedisLockRegistry(connections, "bench", EXPIRES_MS);
      registry.setRedisLockType(RedisLockType.PUB_SUB_LOCK);
      return new Dialled(connections, registry);
    }

    void close() {
      registry.destroy();
      connections.destroy();
    }
  }

  public static void main(String[] words) throws Exception {
    var version = Contender.version("Spring Integration", RedisLockRegistry.class);
    var library = new Contender.Library<Dialled>(Dialled::to, Dialled::close, List.of("eval", "evalsha"), version);
    Contender.main(
        words,
        new Blocking<>("Spring RedisLockRegistry", "peer", List.of("S1", "S5", "S12"), library,
            (dialled, key, task) -> Blocking.of(dialled.registry().obtain(key))));
  }
}
