import { checked } from './errors'
import type { NativeHistogram, NativeMetrics } from './native'
import { OURS, only } from './ours'
import type { LossReason } from './records'

/** A distribution of times from 1 us to 19 hours, in milliseconds, each kept to two digits. */
export class Histogram {
  readonly #native: NativeHistogram

  private constructor(ours: typeof OURS, native: NativeHistogram) {
    only(ours, 'Histogram', 'client.metrics()')
    this.#native = native
  }

  /** @internal */
  static make(native: NativeHistogram): Histogram {
    return new Histogram(OURS, native)
  }

  get count(): number {
    return this.#native.count
  }

  get sum(): number {
    return this.#native.sum
  }

  get max(): number {
    return this.#native.max
  }

  /** The time within which the fraction `q` (0 to 1) of all lies; 0 while there is none. */
  quantile(q: number): number {
    return checked(this.#native.quantile(q))
  }

  /** How many are not longer than `bound`: what a cumulative bucket of Prometheus counts. */
  atMost(bound: number): number {
    return checked(this.#native.atMost(bound))
  }

  /** Its figures, for `JSON.stringify`; times are milliseconds. */
  toJSON(): { count: number; sum: number; max: number; p50: number; p90: number; p99: number } {
    const { count, sum, max } = this
    return { count, sum, max, p50: this.quantile(0.5), p90: this.quantile(0.9), p99: this.quantile(0.99) }
  }

  /** @internal */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    const [half, most, longest] = [this.quantile(0.5), this.quantile(0.99), this.max].map(time => time.toFixed(3))
    return `<Histogram of ${this.count}: p50 ${half} ms, p99 ${most} ms, max ${longest} ms>`
  }

  /** The buckets that are not empty: the longest time of each, and how many are in it. */
  buckets(): [bound: number, count: number][] {
    return this.#native.buckets()
  }
}

/** What a client did in this process so far. `docs/observability.md` says what each figure counts. */
export interface Metrics {
  readonly held: number
  readonly waiting: number
  readonly acquired: number
  readonly reentered: number
  readonly handOffs: number
  readonly contended: number
  readonly refused: number
  readonly timeouts: number
  readonly cancelled: number
  readonly failed: number
  readonly renewals: number
  readonly renewalFailures: number
  readonly requests: number
  readonly roundTrips: number
  readonly reconnects: number
  /** Holds lost, by reason. */
  readonly lost: Readonly<Record<LossReason, number>>
  /** From asking to having. */
  readonly wait: Histogram
  /** From having to the release or the loss. */
  readonly hold: Histogram
}

/** @internal */
export function metricsOf(figures: NativeMetrics): Metrics {
  return { ...figures, wait: Histogram.make(figures.wait), hold: Histogram.make(figures.hold) } as unknown as Metrics
}
