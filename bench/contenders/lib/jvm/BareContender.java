import java.util.List;
import java.util.Map;
import redis.clients.jedis.Jedis;

/** What Java itself costs: two EVALSHA over Jedis, and a runtime that does nothing. */
final class BareContender {
  private static final String ACQUIRE = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])";
  private static final String RELEASE =
      "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

  public static void main(String[] words) throws Exception {
    var jedis = new Contender.Library<Jedis>(Jedis::new, Jedis::close, List.of("evalsha"), Contender.version("Jedis", Jedis.class));
    Contender.main(
        words,
        new Blocking<>("Jedis, two EVALSHA", "peer", List.of("S1"), jedis, (connection, key, task) -> pair(connection, key)),
        new Nothing());
  }

  private static Blocking.Held pair(Jedis connection, String key) {
    String acquire = connection.scriptLoad(ACQUIRE);
    String release = connection.scriptLoad(RELEASE);
    return new Blocking.Held() {
      @Override
      public void acquire() {
        expect("OK", connection.evalsha(acquire, 1, key, "owner", "30000"));
      }

      @Override
      public void release() {
        expect(1L, connection.evalsha(release, 1, key, "owner"));
      }
    };
  }

  private static void expect(Object wanted, Object reply) {
    if (!wanted.equals(reply)) {
      throw new IllegalStateException("the server answered " + reply);
    }
  }

  private static final class Nothing extends Contender<Void> {
    Nothing() {
      super("Java, doing nothing", "bare", List.of("S12"), new Library<>(url -> null, none -> {}, List.of(), Map.of()));
    }

    @Override
    void cold() {
      say("held");
    }

    @Override
    List<Long> pairs(int count) {
      throw new UnsupportedOperationException();
    }

    @Override
    Crowd crowd(List<String> keys) {
      throw new UnsupportedOperationException();
    }
  }
}
