package dev.lockwright;

import java.util.List;

/**
 * Who holds a read/write lock or a semaphore.
 *
 * @param primitive {@code rwlock} or {@code semaphore}
 * @param permits how many there are, of a semaphore
 * @param holders in the order of their tokens
 * @param unlisted how many more hold it than these
 */
public record Sharing(
    String primitive,
    Long permits,
    List<Part> holders,
    long unlisted) {
  static Sharing of(Object told) {
    if (told == null) {
      return null;
    }
    Reply.Fields of = (Reply.Fields) told;
    return new Sharing(
        of.get("primitive"),
        of.get("permits"),
        of.<List<Object>>get("holders").stream().map(Part::of).toList(),
        of.<Long>get("unlisted"));
  }
}
