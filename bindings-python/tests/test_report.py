"""Figures, and events on their way to `logging`."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from typing import Iterator, List

import lockwright
import lockwright.aio
import pytest

from conftest import fork, joined, soon_lost

SOON = 20


class Told(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: List[logging.LogRecord] = []
        self.threads = set()

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.threads.add(threading.current_thread().name)

    def until(self, target: str, lock: str) -> logging.LogRecord:
        give_up = time.monotonic() + SOON
        while time.monotonic() < give_up:
            for record in self.records:
                event = getattr(record, "lockwright", {})
                if event.get("target") == f"lockwright::{target}" and event.get("lock") == lock:
                    return record
            time.sleep(0.001)
        raise AssertionError(f"no {target} of {lock} in {[record.getMessage() for record in self.records]}")


@pytest.fixture
def told() -> Iterator[Told]:
    logger, handler = logging.getLogger("lockwright"), Told()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def lose(client: lockwright.Client, name: str) -> lockwright.Guard:
    guard = soon_lost(client, name)
    assert guard.lost.wait(SOON)
    return guard


def test_a_loss_is_a_warning(client: lockwright.Client, told: Told) -> None:
    began = time.time()
    guard = lose(client, "x")
    record = told.until("lost", "x")
    assert (record.name, record.levelno) == ("lockwright", logging.WARNING)
    assert "lost" in record.getMessage() and began <= record.created <= time.time()
    event = record.lockwright  # type: ignore[attr-defined]
    assert (event["token"], event["reason"]) == (str(guard.token), "not_renewed")
    # The library's own thread ran nothing of Python's.
    assert told.threads == {"lockwright-log"}
    assert not [record for record in told.records if record.levelno < logging.WARNING]
    guard.release()


def test_the_level_is_respected(client: lockwright.Client, told: Told) -> None:
    logger = logging.getLogger("lockwright")
    logger.setLevel(logging.DEBUG)
    with client.lock("detailed"):
        pass
    assert told.until("grant", "detailed").levelno == logging.DEBUG
    told.until("release", "detailed")
    assert not [record for record in told.records if record.levelno < logging.DEBUG]
    logger.setLevel(5)
    with client.lock("renewed", ttl="500ms") as guard:
        assert told.until("renew", "renewed").levelno == 5
        assert guard.is_held
    logger.setLevel(logging.CRITICAL)
    told.records.clear()
    lose(client, "silent").release()
    logger.setLevel(logging.WARNING)
    lose(client, "loud").release()
    told.until("lost", "loud")
    assert "silent" not in str([record.__dict__ for record in told.records])


def test_a_forked_child_tells_by_itself(client: lockwright.Client, told: Told) -> None:
    lose(client, "of the parent").release()
    told.until("lost", "of the parent")

    def child() -> None:
        told.records.clear()
        lose(client, "of the child").release()
        told.until("lost", "of the child")

    assert joined(fork(child)) == 0
    assert "of the child" not in str([record.__dict__ for record in told.records])


def test_a_handler_that_raises_stops_nothing(client: lockwright.Client, told: Told) -> None:
    class Raises(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise KeyError("as a defect would")

    raises, logger = Raises(), logging.getLogger("lockwright")
    logger.addHandler(raises)
    try:
        lose(client, "x").release()
        lose(client, "y").release()
        told.until("lost", "y")
    finally:
        logger.removeHandler(raises)


def run(text: str, *arguments: str) -> str:
    script = subprocess.run([sys.executable, "-c", text, *arguments], capture_output=True, text=True, timeout=60)
    assert (script.returncode, script.stderr) == (0, ""), script
    return script.stdout


def test_nothing_is_started_for_a_program_without_logging(store_uri: str) -> None:
    text = """
import sys, threading, lockwright
client = lockwright.connect(sys.argv[1])
with client.lock("x", ttl="200ms", renew=False).acquire_guard() as guard:
    guard.lost.wait()
    print([thread.name for thread in threading.enumerate()])
    sys.exit()
"""
    assert run(text, store_uri) == "['MainThread']\n"


def test_what_happened_last_is_told_before_the_program_ends(store_uri: str) -> None:
    text = """
import logging, sys, lockwright
client = lockwright.connect(sys.argv[1])
logging.basicConfig(stream=sys.stdout, level=logging.DEBUG, format="%(name)s %(levelname)s %(message)s")
with client.lock("x"):
    pass
"""
    for _ in range(3):
        lines = [line for line in run(text, store_uri).splitlines() if line.startswith("lockwright DEBUG")]
        assert any("grant" in line for line in lines) and "released" in lines[-1], lines


def test_metrics(client: lockwright.Client, other: lockwright.Client) -> None:
    lock = client.lock("x")
    with lock:
        assert client.metrics().held == 1 and lock.try_acquire() is None and not lock.acquire(timeout=0.01)
    lose(client, "y").release()
    now = client.metrics()
    assert (now.held, now.waiting, now.acquired, now.refused, now.timeouts) == (0, 0, 2, 1, 1)
    assert now.lost["not_renewed"] == 1 and sum(now.lost.values()) == 1 and "broken" in now.lost
    assert now.requests >= now.round_trips > 0
    assert now.wait.count == 2 and now.hold.count == 2 and 0.01 < now.hold.max < SOON
    assert 0 < now.wait.quantile(0.5) <= now.wait.max and now.hold.sum >= now.hold.max
    assert now.hold.at_most(0) == 0 and now.hold.at_most(SOON) == 2
    assert sum(count for _, count in now.hold.buckets()) == 2
    assert repr(now.wait).startswith("<lockwright.Histogram of 2: p50 ")
    assert other.metrics().acquired == 0
    for wrong in (lambda: now.wait.quantile(1.1), lambda: now.wait.at_most(-1)):
        with pytest.raises(ValueError):
            wrong()


def test_metrics_of_tasks(store_uri: str) -> None:
    async def main() -> None:
        async with lockwright.aio.connect(store_uri) as client:
            async with client.lock("x"):
                waiting = asyncio.create_task(client.lock("x").acquire())
                while client.metrics().waiting == 0:
                    await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            now = client.metrics()
            assert (now.acquired, now.cancelled, now.waiting, now.held) == (1, 1, 0, 0)

    asyncio.run(main())
