package dev.lockwright;

/**
 * Which of a generation came at a barrier, from 0; the last has the highest index. {@code generation} is the number of those who passed together.
 */
public record Arrival(
    int index,
    long generation) {
  static Arrival of(Object told) {
    if (told == null) {
      return null;
    }
    Reply.Fields of = (Reply.Fields) told;
    return new Arrival(
        (int) (long) of.<Long>get("index"),
        of.<Long>get("generation"));
  }
}
