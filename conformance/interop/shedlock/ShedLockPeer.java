import com.google.gson.JsonObject;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import net.javacrumbs.shedlock.support.Utils;
import org.springframework.jdbc.core.JdbcTemplate;

/** ShedLock's JdbcTemplateLockProvider by the database's time. It only tries: whoever waits here tries again. */
final class ShedLockPeer extends Peer {
  private static final long PAUSE_MS = 20;

  private final Map<String, Client> clients = new ConcurrentHashMap<>();

  private record Client(Database database, JdbcTemplate template, JdbcTemplateLockProvider provider) {}

  public static void main(String[] args) throws Exception {
    new ShedLockPeer().main();
  }

  @Override
  String language() {
    return "shedlock";
  }

  @Override
  void open(String client, String uri) {
    Database database = new Database(uri);
    JdbcTemplate template = new JdbcTemplate(database.pool);
    JdbcTemplateLockProvider.Configuration configuration =
        JdbcTemplateLockProvider.Configuration.builder().withJdbcTemplate(template).usingDbTime().build();
    clients.put(client, new Client(database, template, new JdbcTemplateLockProvider(configuration)));
  }

  @Override
  void close() {
    clients.values().forEach(client -> client.database.close());
    clients.clear();
  }

  @Override
  Held acquire(JsonObject command, double timeout) throws Exception {
    Client client = clients.get(command.get("client").getAsString());
    String name = client.database.prefix + command.get("lock").getAsString();
    double ttl = seconds(command, "ttl", TTL);
    long begun = now();
    while (true) {
      long asked = now();
      Optional<SimpleLock> got = client.provider.lock(new LockConfiguration(Instant.now(), name, span(ttl), Duration.ZERO));
      if (got.isPresent()) {
        Hold hold = new Hold(client, name, got.get());
        hold.until = asked + (long) (ttl * 1e9);
        return hold;
      }
      if (timeout >= 0 && now() - begun >= timeout * 1e9) {
        return null;
      }
      Thread.sleep(PAUSE_MS);
    }
  }

  private static final class Hold extends Held {
    private final Client client;
    private final String name;
    private SimpleLock lock;

    Hold(Client client, String name, SimpleLock lock) {
      this.client = client;
      this.name = name;
      this.lock = lock;
    }

    @Override
    boolean release() {
      boolean held = isHeld();
      try {
        lock.unlock();
      } catch (IllegalStateException spent) {
        // What could not be extended cannot be given back either.
        return false;
      }
      return held;
    }

    /** It has no such call: the table says. */
    @Override
    boolean isHeld() {
      String now = client.database.isPostgres ? "timezone('utc', CURRENT_TIMESTAMP)" : "UTC_TIMESTAMP(3)";
      String asks = "SELECT count(*) FROM shedlock WHERE name = ? AND locked_by = ? AND lock_until > " + now;
      return client.template.queryForObject(asks, Integer.class, name, Utils.getHostname()) == 1;
    }

    @Override
    void extend(double ttl) throws Failed {
      Optional<SimpleLock> extended = lock.extend(span(ttl), Duration.ZERO);
      lock = extended.orElseThrow(() -> new Failed("lost", "it cannot be extended"));
    }
  }
}
