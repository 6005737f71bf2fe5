package dev.lockwright;

import java.time.Duration;

/**
 * Who holds a lock.
 *
 * @param owner a hash that tells two holders apart
 * @param host host
 * @param pid pid
 * @param language language
 * @param label label
 * @param heldFor for how long; null where the store cannot tell
 * @param remaining how long the lease still lasts at the store; of another library's lease without an end, as long as can be
 * @param firstToken 0 for a holder that uses another library
 * @param lastToken a process that hands the lock on among its tasks has several tokens; {@link Client#breakLock} takes any of them
 */
public record Holder(
    String owner,
    String host,
    long pid,
    String language,
    String label,
    Duration heldFor,
    Duration remaining,
    long firstToken,
    long lastToken) {
  static Holder of(Object told) {
    if (told == null) {
      return null;
    }
    Reply.Fields of = (Reply.Fields) told;
    return new Holder(
        of.get("owner"),
        of.get("host"),
        of.<Long>get("pid"),
        of.get("language"),
        of.get("label"),
        of.get("held_for"),
        of.get("remaining"),
        of.<Long>get("first_token"),
        of.<Long>get("last_token"));
  }
}
