package dev.lockwright;

/**
 * What one of several holders has.
 *
 * @param holds {@code read}, {@code write}, or how many permits
 * @param holder holder
 */
public record Part(
    String holds,
    Holder holder) {
  static Part of(Object told) {
    if (told == null) {
      return null;
    }
    Reply.Fields of = (Reply.Fields) told;
    return new Part(
        of.get("holds"),
        Holder.of(of.get("holder")));
  }
}
