package dev.lockwright;

import java.time.Duration;
import java.util.List;

/** A distribution of times from 1 us to 19 hours, each kept to two digits. */
public final class Histogram {
  /** The longest time of a bucket, and how many are in it. */
  public record Bucket(Duration bound, long count) {}

  private final Handle handle;
  private final List<Object> sums;

  Histogram(Reply.Distribution of) {
    handle = new Handle(of.number());
    sums = Handle.list(request(0).call());
  }

  private Request request(int what) {
    return new Request(Verb.HISTOGRAM, handle).octet(what);
  }

  /** How many times it has. */
  public long count() {
    return (long) sums.get(0);
  }

  /** The sum of all. */
  public Duration sum() {
    return (Duration) sums.get(1);
  }

  /** The longest of all. */
  public Duration max() {
    return (Duration) sums.get(2);
  }

  /** The time within which the fraction {@code q} (0 to 1) of all lies; 0 while there is none. */
  public Duration quantile(double q) {
    return (Duration) request(1).fraction(q).call();
  }

  /** How many are not longer than {@code bound}: what a cumulative bucket of Prometheus counts. */
  public long atMost(Duration bound) {
    return (long) request(2).span("metrics", "bound", bound).call();
  }

  /** The buckets that are not empty. */
  public List<Bucket> buckets() {
    return Handle.list(request(3).call()).stream().map(Handle::list)
        .map(bucket -> new Bucket((Duration) bucket.get(0), (long) bucket.get(1))).toList();
  }

  @Override
  public String toString() {
    return "Histogram[" + count() + ": p50 " + quantile(0.5) + ", p99 " + quantile(0.99) + ", max " + max() + "]";
  }
}
