package dev.lockwright;

/** A segment of a striped lock that is held. */
public final class Segment implements AutoCloseable {
  private final Striped of;
  private final int index;
  private final Guard guard;

  Segment(Striped of, int index, Guard guard) {
    this.of = of;
    this.index = index;
    this.guard = guard;
  }

  /** Which segment it is, from 0. */
  public int index() {
    return index;
  }

  /** Its guard, which is like any other. */
  public Guard guard() {
    return guard;
  }

  /** Nothing is left in it: it will not be offered again. It is still to be released. */
  public void markSoldOut() {
    of.markSoldOut(index);
  }

  /** Nothing is left in it: it is given back, and not offered again. */
  public ReleaseOutcome soldOut() {
    markSoldOut();
    return guard.release();
  }

  /** Gives it back, as {@link Guard#release}. */
  public ReleaseOutcome release() {
    return guard.release();
  }

  /** Ends a block, as {@link Guard#close}. */
  @Override
  public void close() {
    guard.close();
  }

  @Override
  public String toString() {
    return "Segment[" + index + ": " + guard + "]";
  }
}
