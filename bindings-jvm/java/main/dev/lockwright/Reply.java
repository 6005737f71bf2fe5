package dev.lockwright;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** A reply of the native library, as {@code reply.rs} writes it. */
final class Reply {
  /** What failed; made an exception where it is thrown. */
  record Failure(String code, String message, String operation, String lock, String store) {
    LockException exception() {
      return LockException.of(this);
    }
  }

  /** A lock that is held, under that number. */
  record Grant(long guard, String name, long token, long epoch, int depth) {}

  /** Several are. */
  record Grants(List<Grant> all) {}

  /** That segment is. */
  record SegmentGrant(int index, Grant grant) {}

  /** How a hold ended. */
  record Ending(ReleaseOutcome outcome, LossReason why) {}

  /** How each of several did: an {@link Ending}, or a failure. */
  record Endings(List<Object> all) {}

  /** The job of that number goes on. */
  record Pending(int job) {}

  /** What waits under that number; {@code limit} is null where it has no end. */
  record Waits(long number, Duration limit) {}

  /** Named values of the core. */
  record Fields(String type, Map<String, Object> values) {
    @SuppressWarnings("unchecked")
    <T> T get(String name) {
      return (T) values.get(name);
    }
  }

  /** A distribution that the library keeps under that number. */
  record Distribution(long number) {}

  private final byte[] bytes;
  private int at;

  Reply(byte[] bytes) {
    this.bytes = bytes;
  }

  static Object checked(Object outcome) {
    if (outcome instanceof Failure failure) {
      throw failure.exception();
    }
    return outcome;
  }

  int octet() {
    return bytes[at++];
  }

  boolean flag() {
    return octet() != 0;
  }

  int count() {
    int count = 0;
    for (int i = 0; i < 4; i++) {
      count = count << 8 | bytes[at++] & 0xff;
    }
    return count;
  }

  long number() {
    return (long) count() << 32 | count() & 0xffff_ffffL;
  }

  String text() {
    int length = count();
    String text = new String(bytes, at, length, StandardCharsets.UTF_8);
    at += length;
    return text;
  }

  private <T> T optional(Supplier<T> read) {
    return flag() ? read.get() : null;
  }

  private <T> List<T> list(Supplier<T> read) {
    int size = count();
    List<T> list = new ArrayList<>(size);
    for (int i = 0; i < size; i++) {
      list.add(read.get());
    }
    return list;
  }

  private Duration span() {
    long seconds = number();
    int nanos = count();
    return seconds == Long.MAX_VALUE || seconds < 0 ? null : Duration.ofSeconds(seconds, nanos);
  }

  /** Whatever is replied; null for nothing. */
  Object outcome() {
    return switch (octet()) {
      case 0 -> failure();
      case 1 -> value();
      case 2 -> grant();
      case 3 -> new Grants(list(this::grant));
      case 4 -> new SegmentGrant(count(), grant());
      case 5 -> ending();
      case 6 -> new Endings(list(() -> flag() ? ending() : failure()));
      case 7 -> new Pending(count());
      case 8 -> new Waits(number(), span());
      default -> throw new IllegalStateException("the native library is of another version");
    };
  }

  private Ending ending() {
    return new Ending(ReleaseOutcome.of(text()), LossReason.of(optional(this::text)));
  }

  private Failure failure() {
    return new Failure(text(), text(), text(), optional(this::text), optional(this::text));
  }

  private Grant grant() {
    return new Grant(number(), text(), number(), number(), count());
  }

  /** A span of time that has no end is {@link #ENDLESS}. */
  Object value() {
    return switch (octet()) {
      case 0 -> null;
      case 1 -> flag();
      case 2 -> number();
      case 3 -> {
        Duration span = span();
        yield span == null ? ENDLESS : span;
      }
      case 4 -> Double.longBitsToDouble(number());
      case 5 -> text();
      case 6 -> list(this::value);
      case 7 -> fields();
      case 8 -> new Distribution(number());
      default -> throw new IllegalStateException("the native library is of another version");
    };
  }

  /** The longest span of time there is. */
  static final Duration ENDLESS = Duration.ofSeconds(Long.MAX_VALUE, 999_999_999);

  private Fields fields() {
    String type = text();
    int size = count();
    Map<String, Object> values = new LinkedHashMap<>();
    for (int i = 0; i < size; i++) {
      String name = text();
      values.put(name, value());
    }
    return new Fields(type, values);
  }
}
