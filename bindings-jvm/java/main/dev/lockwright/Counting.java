package dev.lockwright;

/**
 * How a latch stands: how many are still to come, 0 once it is open.
 */
public record Counting(
    long count) {
  static Counting of(Object told) {
    if (told == null) {
      return null;
    }
    Reply.Fields of = (Reply.Fields) told;
    return new Counting(
        of.<Long>get("count"));
  }
}
