/** Distributed locks, over Redis, over a SQLite file, or without a server: see {@link dev.lockwright.Lockwright}. */
module dev.lockwright {
  exports dev.lockwright;
}
