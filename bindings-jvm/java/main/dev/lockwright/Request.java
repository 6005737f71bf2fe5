package dev.lockwright;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** A request to the native library, as {@code wire.rs} reads it. */
final class Request {
  /** A time limit that has no end. */
  static final Object FOR_EVER = Double.POSITIVE_INFINITY;

  /** What is longer is no limit: the core refuses years of waiting, which {@code java.util.concurrent} takes for what they are. */
  private static final Duration LONGEST = Duration.ofDays(365);

  /** A time limit as {@code java.util.concurrent} has it: nothing is waited for where it is 0 or less. */
  static Object patience(Duration time) {
    if (time.isNegative()) {
      return Duration.ZERO;
    }
    return time.compareTo(LONGEST) > 0 ? FOR_EVER : time;
  }

  /** The same in a unit, in which it may be longer than a number of nanoseconds can say. */
  static Object patience(long time, TimeUnit unit) {
    return patience(Duration.ofNanos(Objects.requireNonNull(unit, "unit").toNanos(time)));
  }

  /** The two ends of a range, either of which may be null. */
  record Range(Object min, Object max) {}

  /** Whose cleaner would have the native library forget what is asked. */
  private final Object about;

  private byte[] bytes = new byte[96];
  private int length;

  private Request(Verb verb, Object about) {
    this.about = about;
    octet(verb.ordinal());
  }

  Request(Verb verb) {
    this(verb, (Object) null);
  }

  Request(Verb verb, long number) {
    this(verb, number, null);
  }

  /** One for what has that number as long as {@code about} is not collected, which this request keeps it from. */
  Request(Verb verb, long number, Object about) {
    this(verb, about);
    number(number);
  }

  Request(Verb verb, Handle handle) {
    this(verb, handle.number, handle);
  }

  private void room(int more) {
    if (length + more > bytes.length) {
      bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, length + more));
    }
  }

  Request octet(int octet) {
    room(1);
    bytes[length++] = (byte) octet;
    return this;
  }

  Request flag(boolean flag) {
    return octet(flag ? 1 : 0);
  }

  Request count(int count) {
    room(4);
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes[length++] = (byte) (count >>> shift);
    }
    return this;
  }

  /** A number that a program gave, which is to be no less than 0; what else it may be, the core says. */
  static int whole(String operation, String what, int number) {
    if (number < 0) {
      throw new LockException.InvalidConfig(operation, what + " is " + number + "; it must not be less than 0");
    }
    return number;
  }

  Request number(long number) {
    return count((int) (number >>> 32)).count((int) number);
  }

  Request fraction(double fraction) {
    return number(Double.doubleToRawLongBits(fraction));
  }

  /** A text that the library made, or one of ours. */
  Request word(String word) {
    byte[] encoded = word.getBytes(StandardCharsets.UTF_8);
    count(encoded.length);
    room(encoded.length);
    System.arraycopy(encoded, 0, bytes, length, encoded.length);
    length += encoded.length;
    return this;
  }

  /** A text that a program gave, as {@code what} of {@code operation}. */
  Request text(String operation, String what, String text) {
    if (text == null) {
      throw new LockException.InvalidConfig(operation, "the " + what + " is null; give a text");
    }
    try {
      ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
      int size = encoded.remaining();
      count(size);
      room(size);
      encoded.get(bytes, length, size);
      length += size;
      return this;
    } catch (CharacterCodingException error) {
      throw new LockException.InvalidConfig(operation, "the " + what + " holds a lone surrogate, which UTF-8 cannot; encode it");
    }
  }

  <T> Request optional(T value, Consumer<T> write) {
    flag(value != null);
    if (value != null) {
      write.accept(value);
    }
    return this;
  }

  Request texts(String operation, String what, Collection<String> texts) {
    count(texts.size());
    texts.forEach(text -> text(operation, what, text));
    return this;
  }

  /** A value of an option, {@code what} of {@code operation}: a span of time as a number, a text, or as a {@link Duration}; a flag; a range. */
  Request given(String operation, String what, Object given) {
    if (given instanceof Duration span) {
      return octet(0).fraction(span.getSeconds() * 1e3 + span.getNano() / 1e6);
    } else if (given instanceof Double milliseconds) {
      return octet(0).fraction(milliseconds);
    } else if (given instanceof String text) {
      return octet(1).text(operation, what, text);
    } else if (given instanceof Boolean flag) {
      return octet(2).flag(flag);
    } else if (given instanceof Range range) {
      return octet(3).optional(range.min, end -> given(operation, what, end)).optional(range.max, end -> given(operation, what, end));
    }
    throw new IllegalStateException("no such option: " + given);
  }

  /** A span of time that must be there. */
  Request span(String operation, String what, Object span) {
    if (span == null) {
      throw new LockException.InvalidConfig(operation, what + " is null; give a Duration, or a text such as \"10s\"");
    }
    return given(operation, what, span);
  }

  Request options(String operation, Map<String, Object> options) {
    count(options.size());
    options.forEach((name, given) -> {
      word(name);
      given(operation, name, given);
    });
    return this;
  }

  /** What comes of it, which may be a failure. */
  Object ask() {
    Object outcome = take().outcome();
    return about instanceof Guard guard ? guard.named(outcome) : outcome;
  }

  /** The reply itself, as the mail of the library, which is waited for. */
  Reply take() {
    try {
      return new Reply(Native.call(bytes, length));
    } finally {
      Reference.reachabilityFence(about);
    }
  }

  /** What comes of it; what failed is thrown. */
  Object call() {
    return Reply.checked(ask());
  }
}
