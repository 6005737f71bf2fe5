package dev.lockwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Duration;
import java.util.NoSuchElementException;
import java.util.UUID;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A transaction that has a lock and the clients exclude one another. */
class InTransactionTest {
  private static final String POSTGRES = "LOCKWRIGHT_TEST_POSTGRES";
  private static final String MARIADB = "LOCKWRIGHT_TEST_MARIADB";

  private interface Takes {
    boolean take(Connection connection, String key) throws SQLException;
  }

  private final String name = "jvm-" + UUID.randomUUID();

  private static URI server(String variable) {
    String uri = System.getenv(variable);
    assumeTrue(uri != null, "the server was not started");
    return URI.create(uri);
  }

  private static Connection connected(URI server) throws SQLException {
    String driver = server.getScheme().startsWith("postgres") ? "jdbc:postgresql://" : "jdbc:mariadb://";
    String[] who = server.getUserInfo().split(":", 2);
    String place = driver + server.getHost() + ":" + server.getPort() + server.getPath();
    Connection connection = DriverManager.getConnection(place, who[0], who.length > 1 ? who[1] : "");
    connection.setAutoCommit(false);
    return connection;
  }

  private void excludes(URI server, String layout, Takes waits, Takes tries) throws SQLException {
    String address = server + (server.getQuery() == null ? "?" : "&") + "layout=" + layout;
    try (Connection connection = connected(server); Client client = Lockwright.connect(address)) {
      Lock lock = client.lock(name);
      assertTrue(waits.take(connection, name));
      assertTrue(tries.take(connection, name));
      assertNull(lock.tryAcquire());
      connection.commit();
      try (Guard guard = lock.acquire(Duration.ofSeconds(20))) {
        assertNotNull(guard);
        assertFalse(tries.take(connection, name));
        connection.rollback();
      }
      assertTrue(tries.take(connection, name));
      connection.rollback();
      connection.setAutoCommit(true);
      assertThrows(IllegalStateException.class, () -> waits.take(connection, name));
      assertThrows(IllegalStateException.class, () -> tries.take(connection, name));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {POSTGRES})
  void anAdvisoryLock(String variable) throws SQLException {
    Takes waits = (connection, key) -> {
      InTransaction.advisoryLock(connection, key);
      return true;
    };
    excludes(server(variable), "advisory", waits, InTransaction::tryAdvisoryLock);
  }

  @ParameterizedTest
  @ValueSource(strings = {POSTGRES, MARIADB})
  void aRow(String variable) throws SQLException {
    Takes waits = (connection, key) -> {
      InTransaction.rowLock(connection, key);
      return true;
    };
    URI server = server(variable);
    try (Connection connection = connected(server)) {
      String missing = assertThrows(NoSuchElementException.class, () -> waits.take(connection, name)).getMessage();
      assertTrue(missing.startsWith("resource_lock has no row '" + name + "'"), missing);
      assertThrows(NoSuchElementException.class, () -> InTransaction.tryRowLock(connection, name));
      connection.rollback();
      try (PreparedStatement row = connection.prepareStatement("INSERT INTO resource_lock (resource_name, owner) VALUES (?, 'a test')")) {
        row.setString(1, name);
        assertEquals(1, row.executeUpdate());
      }
      connection.commit();
    }
    excludes(server, "for_update", waits, InTransaction::tryRowLock);
  }
}
