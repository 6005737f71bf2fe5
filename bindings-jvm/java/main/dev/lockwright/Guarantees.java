package dev.lockwright;

import java.util.List;

/**
 * What locks promise.
 *
 * @param store store
 * @param layout layout
 * @param exclusiveUntil until when a holder is the only one: {@code deadline}, {@code a step of a node's clock}, {@code store failover} or {@code clock skew}
 * @param token until when fencing tokens rise, such as {@code always}
 * @param fair whether {@code fair} can be had
 * @param reentrant whether {@code reentrant} can be had
 * @param shared whether other processes see the locks
 * @param push whether waiters are told when it is their turn; otherwise they ask again by a timer
 * @param survivesDisconnect whether what is held survives the loss of a connection
 * @param incarnation whether a late release or renewal can never touch a later hold of the same owner
 * @param notes what else there is to know
 */
public record Guarantees(
    String store,
    String layout,
    String exclusiveUntil,
    String token,
    boolean fair,
    boolean reentrant,
    boolean shared,
    boolean push,
    boolean survivesDisconnect,
    boolean incarnation,
    List<String> notes) {
  static Guarantees of(Reply.Fields of) {
    return new Guarantees(
        of.get("store"),
        of.get("layout"),
        of.get("exclusive_until"),
        of.get("token"),
        of.<Boolean>get("fair"),
        of.<Boolean>get("reentrant"),
        of.<Boolean>get("shared"),
        of.<Boolean>get("push"),
        of.<Boolean>get("survives_disconnect"),
        of.<Boolean>get("incarnation"),
        of.get("notes"));
  }
}
