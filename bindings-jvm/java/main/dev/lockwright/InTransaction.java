package dev.lockwright;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.NoSuchElementException;
import java.util.Objects;

/**
 * Locks that a transaction of the caller's own has, until it commits or rolls back: for work that is one transaction, and takes no
 * connection besides. They and the holders of this library's locks exclude one another, in the layout that each method names. Nothing
 * renews them, and they have no fencing token: whoever loses the connection has lost the transaction, too.
 *
 * <p>A {@code key} is a lock's name with the address's prefix before it. Whoever waits does so at the database, for as long as that is
 * told to ({@code lock_timeout} in PostgreSQL, {@code innodb_lock_wait_timeout} in MySQL), and is served before a client that polls.
 */
public final class InTransaction {
  private static final String ROW = "SELECT owner FROM resource_lock WHERE resource_name = ?";

  private InTransaction() {}

  /**
   * Waits for the advisory lock of {@code key}. PostgreSQL; layout {@code advisory}.
   *
   * @throws IllegalStateException where each statement is a transaction (auto-commit), and nothing was asked
   * @throws SQLException as the driver says, also when the database's limit is over
   */
  public static void advisoryLock(Connection connection, String key) throws SQLException {
    checkOpen(connection);
    first(connection, "SELECT pg_advisory_xact_lock(?)", Kit.advisoryKey(key));
  }

  /**
   * Whether it has the advisory lock of {@code key} from now on, which it does unless another has. PostgreSQL; layout
   * {@code advisory}.
   *
   * @throws IllegalStateException where each statement is a transaction (auto-commit), and nothing was asked
   * @throws SQLException as the driver says
   */
  public static boolean tryAdvisoryLock(Connection connection, String key) throws SQLException {
    checkOpen(connection);
    return (boolean) first(connection, "SELECT pg_try_advisory_xact_lock(?)", Kit.advisoryKey(key));
  }

  /**
   * Waits for the row of {@code key}. PostgreSQL, MySQL and MariaDB; layout {@code for_update}.
   *
   * @throws NoSuchElementException where there is no such row
   * @throws IllegalStateException where each statement is a transaction (auto-commit), and nothing was asked
   * @throws SQLException as the driver says, also when the database's limit is over
   */
  public static void rowLock(Connection connection, String key) throws SQLException {
    checkOpen(connection);
    if (first(connection, ROW + " FOR UPDATE", checked(key)) == null) {
      throw missing(key);
    }
  }

  /**
   * Whether it has the row of {@code key} from now on, which it does unless another has. PostgreSQL, MySQL 8 and MariaDB 10.6; layout
   * {@code for_update}.
   *
   * @throws NoSuchElementException where there is no such row
   * @throws IllegalStateException where each statement is a transaction (auto-commit), and nothing was asked
   * @throws SQLException as the driver says
   */
  public static boolean tryRowLock(Connection connection, String key) throws SQLException {
    checkOpen(connection);
    if (first(connection, ROW + " FOR UPDATE SKIP LOCKED", checked(key)) != null) {
      return true;
    }
    if (first(connection, ROW, key) == null) {
      throw missing(key);
    }
    return false;
  }

  private static void checkOpen(Connection connection) throws SQLException {
    if (connection.getAutoCommit()) {
      throw new IllegalStateException("the connection commits by itself, which would free the lock at once; setAutoCommit(false) first");
    }
  }

  private static String checked(String key) {
    return Objects.requireNonNull(key, "key");
  }

  private static NoSuchElementException missing(String key) {
    return new NoSuchElementException(
        "resource_lock has no row '" + key + "'; insert it in a transaction of its own before, with any owner, and leave it there");
  }

  /** What stands first in the answer; null where there is none, and an empty text for what has no value. */
  private static Object first(Connection connection, String statement, Object parameter) throws SQLException {
    try (PreparedStatement prepared = connection.prepareStatement(statement)) {
      prepared.setObject(1, parameter);
      try (ResultSet rows = prepared.executeQuery()) {
        return rows.next() ? Objects.requireNonNullElse(rows.getObject(1), "") : null;
      }
    }
  }
}
