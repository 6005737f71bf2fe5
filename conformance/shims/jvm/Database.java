import com.zaxxer.hikari.HikariDataSource;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;

/** A database at an address of ours, and what of the address a peer has to know. */
final class Database implements AutoCloseable {
  private static final String PREFIX = "prefix=";
  /** As many as tasks of a play work at once. */
  private static final int CONNECTIONS = 8;

  final HikariDataSource pool = new HikariDataSource();
  final boolean isPostgres;
  final String prefix;

  Database(String uri) {
    URI address = URI.create(uri);
    isPostgres = address.getScheme().startsWith("postgres");
    String scheme = isPostgres ? "postgresql" : "mariadb";
    pool.setJdbcUrl("jdbc:" + scheme + "://" + address.getHost() + ":" + address.getPort() + address.getPath());
    String[] login = address.getRawUserInfo().split(":", 2);
    pool.setUsername(URLDecoder.decode(login[0], StandardCharsets.UTF_8));
    pool.setPassword(URLDecoder.decode(login[1], StandardCharsets.UTF_8));
    pool.setMaximumPoolSize(CONNECTIONS);
    pool.setMinimumIdle(1);
    String query = String.valueOf(address.getQuery());
    int at = query.indexOf(PREFIX);
    prefix = at < 0 ? "" : query.substring(at + PREFIX.length()).split("&")[0];
  }

  @Override
  public void close() {
    pool.close();
  }
}
