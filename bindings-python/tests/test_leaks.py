from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Iterator

import lockwright
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts in /proc")


def residue() -> tuple[int, int]:
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


@pytest.fixture
def nothing_left() -> Iterator[Callable[[], None]]:
    """To be called once all that starts at first use has started; at the end there must be no more than then."""
    before: list[tuple[int, int]] = []
    yield lambda: before.append(residue())
    deadline = time.monotonic() + 20
    # A thread that ended is listed until the system has cleared it away.
    while residue() > before[0] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert residue() <= before[0]


def test_holds(client: lockwright.Client, nothing_left: Callable[[], None]) -> None:
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
    client: lockwright.Client, other: lockwright.Client, nothing_left: Callable[[], None]
) -> None:
    class Enough(Exception):
        pass

    def enough(number: int, frame: object) -> None:
        raise Enough

    lock = client.lock("x")
    before = signal.signal(signal.SIGALRM, enough)
    try:
        with other.lock("x") as guard:
            assert not lock.acquire(timeout=0.01)
            nothing_left()
            for _ in range(200):
                assert not lock.acquire(timeout=0.001)
                assert not guard.lost.wait(0.001)
            for _ in range(20):
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                with pytest.raises(Enough):
                    lock.acquire()
            while other.inspect("x").waiters:
                time.sleep(0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert lock.acquire(blocking=False)
    lock.release()


def test_threads_that_ended(client: lockwright.Client, nothing_left: Callable[[], None]) -> None:
    def work() -> None:
        with client.rlock("x"), client.lock(f"of {threading.get_ident()}"):
            pass

    work()
    nothing_left()
    for _ in range(20):
        with ThreadPoolExecutor(10) as pool:
            for done in [pool.submit(work) for _ in range(10)]:
                done.result()


def test_clients(store_uri: str, nothing_left: Callable[[], None]) -> None:
    def use() -> None:
        with lockwright.connect(store_uri) as client, client.lock("x"):
            assert not client.lock("x").acquire(timeout=0.001)

    use()
    nothing_left()
    for _ in range(50):
        use()
