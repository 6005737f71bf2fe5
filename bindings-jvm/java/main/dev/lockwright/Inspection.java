package dev.lockwright;

import java.util.List;

/**
 * What {@link Client#inspect} tells about a lock.
 *
 * @param name name
 * @param layout layout
 * @param holder null when it is free
 * @param waiters how many wait, over all clients
 * @param ahead how many are ahead, at most, of each that waits by this client, in the order in which they came
 * @param queue who waits in the store's queue, of all clients, whoever is served next first: at most the first 100; empty where the
 *     layout keeps no queue, or not who stands in it
 * @param primitive {@code lock}, {@code rwlock}, {@code semaphore}, {@code latch}, {@code barrier}, or null where nothing lies there
 * @param shared of a read/write lock or a semaphore, all who hold it
 * @param latch of a latch, how it stands
 */
public record Inspection(
    String name,
    String layout,
    Holder holder,
    long waiters,
    List<Long> ahead,
    List<Waiting> queue,
    String primitive,
    Sharing shared,
    Counting latch) {
  static Inspection of(Object told) {
    if (told == null) {
      return null;
    }
    Reply.Fields of = (Reply.Fields) told;
    return new Inspection(
        of.get("name"),
        of.get("layout"),
        Holder.of(of.get("holder")),
        of.<Long>get("waiters"),
        of.get("ahead"),
        of.<List<Object>>get("queue").stream().map(Waiting::of).toList(),
        of.get("primitive"),
        Sharing.of(of.get("shared")),
        Counting.of(of.get("latch")));
  }
}
