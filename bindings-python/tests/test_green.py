"""Programs that gevent or eventlet has patched: whatever waits lets other greenlets run. Each runs in a process of its own."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import STORES, space

# Not imported here: eventlet warns of every fork from then on.
if not all(map(importlib.util.find_spec, ("gevent", "eventlet"))):
    pytest.skip("gevent and eventlet are not installed", allow_module_level=True)

PATCHED = {
    "gevent": """
from gevent import monkey; monkey.patch_all()
import gevent
spawn, sleep = gevent.spawn, gevent.sleep
def join(greenlets):
    for greenlet in greenlets: greenlet.get()
""",
    "eventlet": """
import warnings; warnings.simplefilter("ignore")
import eventlet; eventlet.monkey_patch()
spawn, sleep = eventlet.spawn, eventlet.sleep
def join(greenlets):
    for greenlet in greenlets: greenlet.wait()
""",
}

PREAMBLE = """
import logging, sys, time, threading
logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
import lockwright
client = lockwright.connect(sys.argv[1])
ticks = 0
def tick():
    global ticks
    while True:
        ticks += 1
        sleep(0.001)
clock = spawn(tick)
"""


# How a hub waits differs between the libraries, and what it waits for between the stores: not each with each.
PLACES = [("gevent", store) for store in STORES] + [("eventlet", STORES[-1])]


@pytest.fixture(params=PLACES, ids="-".join)
def place(request: pytest.FixtureRequest) -> "tuple[str, str]":
    library, store = request.param
    return library, store


@pytest.fixture
def store_uri(place: "tuple[str, str]", scratch: Path) -> str:
    return space(place[1], scratch)


@pytest.fixture
def green(place: "tuple[str, str]", store_uri: str):  # type: ignore[no-untyped-def]
    def run(program: str) -> subprocess.CompletedProcess[str]:
        text = PATCHED[place[0]] + PREAMBLE + program
        ended = subprocess.run([sys.executable, "-c", text, store_uri], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr
        return ended

    return run


def test_two_greenlets_that_want_one_lock(green) -> None:  # type: ignore[no-untyped-def]
    green(
        """
lock, order = client.lock("x"), []
def work(name):
    with lock as guard:
        order.append((name, guard.token))
        before = ticks
        while ticks < before + 20: sleep(0.001)
        order.append((name, guard.token))
join([spawn(work, name) for name in "abc"])
assert [name for name, _ in order] == list("aabbcc"), order
assert ticks > 50, ticks
"""
    )


def test_what_is_handed_on_comes_without_a_pause(green) -> None:  # type: ignore[no-untyped-def]
    """Each look of its own accord would be a second after the one before."""
    green(
        """
lock, count = client.lock("x"), 0
def work():
    global count
    for _ in range(25):
        with lock:
            before = count
            sleep(0)
            count = before + 1
begin = time.monotonic()
join([spawn(work) for _ in range(4)])
assert count == 100
assert time.monotonic() - begin < 20, time.monotonic() - begin
"""
    )


def test_another_client_releases(green) -> None:  # type: ignore[no-untyped-def]
    green(
        """
second = lockwright.connect(sys.argv[1])
guard = second.lock("x").acquire_guard()
waiting = spawn(client.lock("x").acquire)
for _ in range(20): sleep(0.01)
guard.release()
join([waiting])
assert second.lock("x").locked()
"""
    )


def test_a_time_limit(green) -> None:  # type: ignore[no-untyped-def]
    green(
        """
with client.lock("x"):
    begin = time.monotonic()
    assert not client.lock("x").acquire(timeout=0.2)
    assert 0.19 < time.monotonic() - begin < 5
    assert client.lock("x").try_acquire() is None
    assert ticks > 10
"""
    )


def test_others_run_while_a_client_is_pinged_and_drained(green) -> None:  # type: ignore[no-untyped-def]
    green(
        """
assert client.ping().took > 0
guard = client.lock("x").acquire_guard()
def release():
    sleep(0.1)
    guard.release()
releasing, before = spawn(release), ticks
assert client.drain(20) == []
join([releasing])
assert ticks - before > 10, ticks - before
try:
    client.lock("y").try_acquire()
except lockwright.Closed:
    pass
"""
    )


def test_an_rlock_is_its_greenlets(green) -> None:  # type: ignore[no-untyped-def]
    green(
        """
lock, inside = client.rlock("x"), 0
def work():
    global inside
    with lock, lock:
        inside += 1
        assert inside == 1
        sleep(0.01)
        inside -= 1
join([spawn(work) for _ in range(4)])
lock.acquire()
def foreign():
    try: lock.release()
    except lockwright.NotOwned: return
    raise AssertionError
join([spawn(foreign)])
lock.release()
"""
    )


def test_each_block_ends_what_it_began(green) -> None:  # type: ignore[no-untyped-def]
    green(
        """
permits = client.semaphore("x", 3)
def work(pause):
    with permits as guard:
        sleep(pause)
        assert guard.is_held
join([spawn(work, pause) for pause in (0.05, 0.01, 0.03)])
assert client.inspect("x").holder is None
"""
    )


def test_a_greenlet_that_is_killed_gives_its_place_up(green) -> None:  # type: ignore[no-untyped-def]
    green(
        """
lock = client.lock("x")
guard = lock.acquire_guard()
waiting = spawn(lock.acquire)
for _ in range(20): sleep(0.005)
waiting.kill()
sleep(0.05)
guard.release()
assert lock.acquire(timeout=20)
lock.release()
"""
    )


def test_a_loss_is_logged_and_told(green) -> None:  # type: ignore[no-untyped-def]
    ended = green(
        """
told = []
guard = client.lock("x", ttl="200ms", renew=False).acquire_guard()
guard.on_lost(told.append)
assert guard.lost.wait(20)
while not told: sleep(0.01)
assert told == ["not_renewed"], told
"""
    )
    assert "lost" in ended.stderr


def test_latches_and_barriers(green) -> None:  # type: ignore[no-untyped-def]
    green(
        """
barrier = client.barrier("b", 3)
waiting = [spawn(barrier.wait, 20) for _ in range(3)]
join(waiting)
latch = client.latch("l", 1)
waiting = spawn(latch.wait, 20)
for _ in range(10): sleep(0.005)
latch.count_down()
join([waiting])
"""
    )


def test_a_forked_child_has_bells_of_its_own(green) -> None:  # type: ignore[no-untyped-def]
    green(
        """
import os
lock = client.lock("x")
with lock:
    assert not client.lock("x").acquire(timeout=0.05)
if "gevent" in sys.modules:
    pid = os.fork()
    if pid == 0:
        with client.lock("of the child"):
            assert not client.lock("of the child").acquire(timeout=0.05)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    lock.acquire()
    waiting = spawn(lock.acquire, True, 20)
    sleep(0.05)
    lock.release()
    join([waiting])
"""
    )


def test_credentials_are_asked_for_beside_the_greenlets(green, store_uri: str) -> None:  # type: ignore[no-untyped-def]
    if not store_uri.startswith("redis"):
        pytest.skip("it has none")
    green(
        """
asked = []
def credentials():
    time.sleep(0.01)
    asked.append(threading.get_native_id())
    raise RuntimeError("the vault is closed")
try:
    lockwright.connect(sys.argv[1], credentials=credentials).lock("x").acquire()
except lockwright.AuthFailed as error:
    assert "the vault is closed" in str(error), error
else:
    raise AssertionError
assert asked and threading.get_native_id() not in asked
"""
    )
