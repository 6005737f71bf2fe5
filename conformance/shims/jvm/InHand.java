/** How many commands are in hand. */
final class InHand {
  private int running;

  synchronized void begin() {
    running++;
  }

  synchronized void end() {
    running--;
    notifyAll();
  }

  /** Returns once the asking command is the only one. */
  synchronized void awaitTheOthers() throws InterruptedException {
    while (running > 1) {
      wait();
    }
  }
}
