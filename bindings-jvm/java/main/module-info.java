/** Distributed locks, over Redis, over a SQLite file, or without a server: see {@link dev.lockwright.Lockwright}. */
module dev.lockwright {
  exports dev.lockwright;
  // For InTransaction alone.
  requires static transitive java.sql;
}
