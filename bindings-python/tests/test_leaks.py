from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Iterator

import lockwright
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts in /proc")


def residue() -> tuple[int, int]:
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


class Baseline:
    """What there may be at the end of a test."""

    def __call__(self, at_once: int = 1) -> None:
        """To be called once all that starts at first use has started. A client keeps the connections that it needed at one
        time, so the callers that are inside the library `at_once` may leave one each."""
        self.threads, descriptors = residue()
        self.descriptors = descriptors + at_once - 1

    def is_kept(self) -> bool:
        threads, descriptors = residue()
        return threads <= self.threads and descriptors <= self.descriptors


@pytest.fixture
def nothing_left() -> Iterator[Baseline]:
    baseline = Baseline()
    yield baseline
    deadline = time.monotonic() + 20
    # A thread that ended is listed until the system has cleared it away.
    while not baseline.is_kept() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert baseline.is_kept(), f"{residue()} for {vars(baseline)}"


def listen(client: lockwright.Client, other: lockwright.Client) -> None:
    """Has a client listen: else it would begin to when somebody holds a lock for a second, as on a machine that stalls."""
    with other.lock("listened for"):
        assert not client.lock("listened for").acquire(timeout=0.5)


def test_holds(client: lockwright.Client, other: lockwright.Client, nothing_left: Baseline) -> None:
    listen(client, other)
    lock = client.lock("x")
    with lock:
        assert not lock.acquire(timeout=0.01)
    nothing_left()
    for number in range(500):
        with lock:
            pass
        with client.lock(f"lock {number % 100}"):
            pass


def test_waits_that_are_given_up(
    client: lockwright.Client, other: lockwright.Client, nothing_left: Baseline
) -> None:
    class Enough(Exception):
        pass

    def enough(number: int, frame: object) -> None:
        raise Enough

    def give_up(times: int) -> None:
        for _ in range(times * 10):
            assert not lock.acquire(timeout=0.001)
            assert not guard.lost.wait(0.001)
        for _ in range(times):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            with pytest.raises(Enough):
                lock.acquire()
        while other.inspect("x").waiters:
            time.sleep(0)

    lock = client.lock("x")
    before = signal.signal(signal.SIGALRM, enough)
    try:
        # The first renewal would open a connection of its own.
        with other.lock("x", ttl=3600) as guard:
            listen(other, client)
            # Whoever waits undoes its own place, and the background that of whoever is interrupted.
            give_up(1)
            nothing_left()
            give_up(20)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert lock.acquire(blocking=False)
    lock.release()


def test_threads_that_ended(client: lockwright.Client, other: lockwright.Client, nothing_left: Baseline) -> None:
    def work() -> None:
        with client.rlock("x"), client.lock(f"of {threading.get_ident()}"):
            pass

    listen(client, other)
    work()
    nothing_left(at_once=10)
    for _ in range(20):
        with ThreadPoolExecutor(10) as pool:
            for done in [pool.submit(work) for _ in range(10)]:
                done.result()


def test_clients(store_uri: str, nothing_left: Baseline) -> None:
    def use() -> None:
        with lockwright.connect(store_uri) as client, client.lock("x"):
            assert not client.lock("x").acquire(timeout=0.001)

    use()
    nothing_left()
    for _ in range(50):
        use()
