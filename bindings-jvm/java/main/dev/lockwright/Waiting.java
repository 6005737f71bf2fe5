package dev.lockwright;

import java.time.Duration;

/**
 * Somebody in a queue.
 *
 * @param host host
 * @param pid pid
 * @param language language
 * @param label label
 * @param waited for how long it has waited; null where the store does not keep since when
 * @param rank the {@code rank} of a fair lock, from 0 to 9; 0 of all else
 * @param wants {@code read}, {@code write}, or how many permits; null of a lock
 */
public record Waiting(
    String host,
    long pid,
    String language,
    String label,
    Duration waited,
    long rank,
    String wants) {
  static Waiting of(Object told) {
    if (told == null) {
      return null;
    }
    Reply.Fields of = (Reply.Fields) told;
    return new Waiting(
        of.get("host"),
        of.<Long>get("pid"),
        of.get("language"),
        of.get("label"),
        of.get("waited"),
        of.<Long>get("rank"),
        of.get("wants"));
  }
}
