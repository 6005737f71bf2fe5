import com.google.gson.JsonObject;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.integration.jdbc.lock.DefaultLockRepository;
import org.springframework.integration.jdbc.lock.JdbcLockRegistry;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.util.UUIDConverter;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;

/** Spring Integration's JdbcLockRegistry. */
final class SpringJdbcPeer extends Peer {
  private static final Duration PAUSE = Duration.ofMillis(20);

  private final Map<String, Client> clients = new ConcurrentHashMap<>();

  private record Client(Database database, DefaultLockRepository repository, JdbcLockRegistry registry) {}

  public static void main(String[] args) throws Exception {
    new SpringJdbcPeer().main();
  }

  @Override
  String language() {
    return "spring";
  }

  @Override
  void open(String client, String uri) {
    Database database = new Database(uri);
    DefaultLockRepository repository = new DefaultLockRepository(database.pool);
    repository.setTransactionManager(new DataSourceTransactionManager(database.pool));
    repository.afterPropertiesSet();
    repository.afterSingletonsInstantiated();
    JdbcLockRegistry registry = new JdbcLockRegistry(repository);
    registry.setIdleBetweenTries(PAUSE);
    clients.put(client, new Client(database, repository, registry));
  }

  @Override
  void close() {
    clients.values().forEach(client -> client.database.close());
    clients.clear();
  }

  @Override
  Held acquire(JsonObject command, double timeout) throws Exception {
    Client client = clients.get(command.get("client").getAsString());
    String key = key(client, command);
    Hold hold = new Hold(client, key, client.registry.obtain(key));
    return hold.take(seconds(command, "ttl", TTL), timeout);
  }

  /** It has no such call: an operator deletes the row. */
  @Override
  boolean force(JsonObject command) {
    Client client = clients.get(command.get("client").getAsString());
    String deletes = "DELETE FROM INT_LOCK WHERE LOCK_KEY = ?";
    return new JdbcTemplate(client.database.pool).update(deletes, id(key(client, command))) == 1;
  }

  private static String key(Client client, JsonObject command) {
    return client.database.prefix + command.get("lock").getAsString();
  }

  private static String id(String key) {
    return UUIDConverter.getUUID(key).toString();
  }

  private static final class Hold extends SpringHeld {
    private final Client client;
    private final String key;

    Hold(Client client, String key, DistributedLock lock) {
      super(lock);
      this.client = client;
      this.key = key;
    }

    @Override
    boolean isHeld() {
      return client.repository.isAcquired(id(key));
    }

    @Override
    void renew(Duration ttl) {
      client.registry.renewLock(key, ttl);
    }
  }
}
