package dev.lockwright;

import java.util.EnumMap;
import java.util.Map;

/**
 * What a client did in this process so far; {@code docs/observability.md} says what each figure counts.
 *
 * @param held held
 * @param waiting waiting
 * @param acquired acquired
 * @param reentered reentered
 * @param handOffs handOffs
 * @param contended contended
 * @param refused refused
 * @param timeouts timeouts
 * @param cancelled cancelled
 * @param failed failed
 * @param renewals renewals
 * @param renewalFailures renewalFailures
 * @param requests requests
 * @param roundTrips roundTrips
 * @param reconnects reconnects
 * @param lost holds lost, by reason
 * @param waitTimes from asking to having
 * @param holdTimes from having to the release or the loss
 */
public record Metrics(
    long held,
    long waiting,
    long acquired,
    long reentered,
    long handOffs,
    long contended,
    long refused,
    long timeouts,
    long cancelled,
    long failed,
    long renewals,
    long renewalFailures,
    long requests,
    long roundTrips,
    long reconnects,
    Map<LossReason, Long> lost,
    Histogram waitTimes,
    Histogram holdTimes) {
  static Metrics of(Reply.Fields of) {
    return new Metrics(
        of.<Long>get("held"),
        of.<Long>get("waiting"),
        of.<Long>get("acquired"),
        of.<Long>get("reentered"),
        of.<Long>get("hand_offs"),
        of.<Long>get("contended"),
        of.<Long>get("refused"),
        of.<Long>get("timeouts"),
        of.<Long>get("cancelled"),
        of.<Long>get("failed"),
        of.<Long>get("renewals"),
        of.<Long>get("renewal_failures"),
        of.<Long>get("requests"),
        of.<Long>get("round_trips"),
        of.<Long>get("reconnects"),
        lost(of.get("lost")),
        new Histogram(of.get("wait")),
        new Histogram(of.get("hold")));
  }

  private static Map<LossReason, Long> lost(Reply.Fields of) {
    Map<LossReason, Long> lost = new EnumMap<>(LossReason.class);
    of.values().forEach((reason, count) -> lost.put(LossReason.of(reason), (Long) count));
    return lost;
  }
}
