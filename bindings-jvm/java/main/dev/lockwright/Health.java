package dev.lockwright;

import java.time.Duration;

/**
 * What {@link Client#ping} found.
 *
 * @param took how long it took to acquire a lock and give it back
 * @param eviction what the store does when its memory is full; null where it has no such thing or this user may not ask
 * @param mayEvict whether the store may then throw away locks that are held
 */
public record Health(
    Duration took,
    String eviction,
    boolean mayEvict) {
  static Health of(Object told) {
    if (told == null) {
      return null;
    }
    Reply.Fields of = (Reply.Fields) told;
    return new Health(
        of.get("took"),
        of.get("eviction"),
        of.<Boolean>get("may_evict"));
  }
}
