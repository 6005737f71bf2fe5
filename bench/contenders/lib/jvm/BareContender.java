import java.util.List;
import java.util.Map;
import redis.clients.jedis.Jedis;

/** What Java itself costs: two EVALSHA over Jedis, and a runtime that does nothing. */
final class BareContender {
  public static void main(String[] words) throws Exception {
    Contender.main(words, new Pair(), new Nothing());
  }

  /** One acquire script and one compare-and-delete script. */
  private static final class Pair extends Blocking {
    private static final String ACQUIRE = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])";
    private static final String RELEASE =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

    private Jedis connection;

    Pair() {
      super("Jedis, two EVALSHA", "peer", List.of("S1"), "evalsha");
    }

    @Override
    Map<String, String> versions() {
      return version("Jedis", Jedis.class);
    }

    @Override
    void connect(String url) {
      connection = new Jedis(url);
    }

    @Override
    void disconnect() {
      connection.close();
    }

    @Override
    Held held(String key, int task) {
      String acquire = connection.scriptLoad(ACQUIRE);
      String release = connection.scriptLoad(RELEASE);
      return new Held() {
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
  }

  private static final class Nothing extends Contender {
    Nothing() {
      super("Java, doing nothing", "bare", List.of("S12"));
    }

    @Override
    void connect(String url) {}

    @Override
    void disconnect() {}

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
