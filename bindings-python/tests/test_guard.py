from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lockwright
import pytest
from conftest import soon_lost

SOON = 20
"""Seconds after which what should have happened at once did not."""


def lost(client: lockwright.Client, name: str = "x") -> lockwright.Guard:
    guard = soon_lost(client, name)
    assert guard.lost.wait(SOON)
    return guard


def test_what_a_guard_tells(client: lockwright.Client) -> None:
    guard = client.lock("orders:42", ttl=10).acquire_guard()
    assert (guard.name, guard.depth, guard.epoch) == ("orders:42", 1, 0)
    assert isinstance(guard.token, int) and guard.token > 0
    assert guard.is_held and 5 < guard.remaining() < 10
    assert guard.why_lost is None and not guard.lost.is_set() and not guard.lost.wait(0)
    assert "orders:42" in repr(guard) and "held" in repr(guard)
    assert guard.release() == "released"
    assert not guard.is_held and guard.remaining() == 0 and guard.why_lost is None and not guard.lost.is_set()
    assert "released" in repr(guard)
    with client.lock("orders:42") as later:
        assert later.token > guard.token


def test_release_is_once(client: lockwright.Client) -> None:
    guard = client.lock("x").acquire_guard()
    guard.release()
    for again in guard.release, guard.__enter__, lambda: guard.extend(10):
        with pytest.raises(lockwright.NotOwned):
            again()


def test_a_guard_is_a_context_manager(client: lockwright.Client) -> None:
    lock = client.lock("x")
    with lock.acquire_guard(timeout=1) as guard:
        assert guard.is_held
    assert not lock.locked()


def test_what_cannot_be_had(client: lockwright.Client) -> None:
    lock = client.lock("x", timeout=0.01)
    # A busy store may take longer than the lock's limit.
    with lock.acquire_guard(timeout=30):
        assert lock.try_acquire() is None
        for attempt in lock.acquire_guard, lambda: lock.acquire_guard(0), lock.__enter__:
            with pytest.raises(TimeoutError) as raised:
                attempt()
            assert isinstance(raised.value, lockwright.LockTimeout)
        # The lock's own limit goes for `acquire` too.
        assert not lock.acquire()
    guard = lock.try_acquire()
    assert guard is not None and guard.release() == "released"


def test_depth(client: lockwright.Client) -> None:
    lock = client.rlock("x")
    outer = lock.acquire_guard()
    inner = lock.acquire_guard()
    assert inner.depth == 2
    assert inner.release() == "kept"
    assert outer.is_held
    assert outer.release() == "released"


def test_extend(client: lockwright.Client) -> None:
    with client.lock("x", ttl=10) as guard:
        guard.extend(60)
        assert guard.remaining() > 50
        for ttl in 0, -1, float("nan"), 1e9:
            with pytest.raises(lockwright.InvalidConfig):
                guard.extend(ttl)
    with pytest.raises(lockwright.LockLost):
        lost(client, "y").extend(10)


def test_a_block_without_an_error_raises_the_loss(client: lockwright.Client) -> None:
    lock = client.lock("x", ttl="200ms", renew=False)
    with pytest.raises(lockwright.LockLost) as raised:
        with lock as guard:
            guard.lost.wait(SOON)
    assert (raised.value.lock, raised.value.operation) == ("x", "release")
    assert guard.why_lost == "not_renewed" and guard.lost.is_set() and "not_renewed" in repr(guard)
    with pytest.raises(lockwright.LockLost):
        with lock.acquire_guard() as guard:
            guard.lost.wait(SOON)
    lock.acquire()
    with client.lock("x"):
        pass
    with pytest.raises(lockwright.LockLost):
        lock.release()
    with pytest.raises(lockwright.NotOwned):
        lock.release()


def test_a_block_with_an_error_raises_that(client: lockwright.Client) -> None:
    with pytest.raises(KeyError) as raised:
        with client.lock("x", ttl="200ms", renew=False) as guard:
            guard.lost.wait(SOON)
            raise KeyError
    assert raised.value.__context__ is None
    with pytest.raises(KeyError):
        with lost(client):
            raise KeyError


def test_a_block_may_give_back_by_itself(client: lockwright.Client) -> None:
    lock = client.lock("x")
    with lock as guard:
        guard.release()
        # By now it may be somebody else's.
        with lock.acquire_guard() as later:
            assert later.is_held
    with lock:
        lock.release()
    with lock.acquire_guard() as guard:
        guard.release()
    assert not lock.locked()
    rlock = client.rlock("y")
    for early in (lambda guard: guard.release(), lambda guard: rlock.release()):
        with rlock as outer:
            with rlock as inner:
                early(inner)
                with rlock:
                    pass
            assert outer.is_held
    assert not rlock.locked()


def test_what_a_late_release_says(client: lockwright.Client) -> None:
    guard = lost(client)
    with client.lock("x") as holder:
        assert guard.release() in ("expired", "stolen")
        assert holder.is_held
    assert guard.why_lost == "not_renewed"


def test_a_held_lock_is_renewed(client: lockwright.Client, other: lockwright.Client) -> None:
    with client.lock("x", ttl="500ms") as guard:
        assert not other.lock("x").acquire(timeout=1.0)
        assert guard.is_held


def test_max_hold(client: lockwright.Client) -> None:
    guard = client.lock("x", ttl="100ms", max_hold=0.1).acquire_guard()
    assert guard.lost.wait(SOON) and guard.why_lost == "max_hold"
    guard.release()


def test_a_broken_lock(client: lockwright.Client) -> None:
    guard = client.lock("x").acquire_guard()
    assert not client.break_lock("x", guard.token + 1000)
    assert client.break_lock("x", guard.token)
    assert guard.lost.wait(SOON) and not guard.is_held
    assert client.lock("x").try_acquire().release() == "released"
    assert guard.release() in ("expired", "stolen", "unknown")


def test_loss_is_told_to_callbacks(client: lockwright.Client) -> None:
    guard = soon_lost(client, "x")
    told: list[Any] = []
    done = threading.Event()

    def first(why: str) -> None:
        told.append((why, threading.current_thread().name, guard.is_held))
        raise KeyError("a callback that raises stops no other")

    guard.on_lost(first)
    guard.on_lost(lambda why: done.set())
    assert done.wait(SOON)
    assert told == [("not_renewed", "lockwright-dispatcher", False)]
    done.clear()
    guard.on_lost(lambda why: done.set())
    assert done.wait(SOON), "a loss that is past is told at once"
    guard.release()


def test_a_callback_may_use_the_client(client: lockwright.Client) -> None:
    guard = soon_lost(client, "x")
    outcomes: list[str] = []
    done = threading.Event()

    def take_again(why: str) -> None:
        with client.lock("x"):
            outcomes.append(guard.release())
        done.set()

    guard.on_lost(take_again)
    assert done.wait(SOON) and outcomes[0] in ("expired", "stolen")


def test_no_callback_after_a_release(client: lockwright.Client) -> None:
    told: list[str] = []
    guard = client.lock("x", ttl="400ms", renew=False).acquire_guard()
    guard.on_lost(told.append)
    guard.release()
    guard.on_lost(told.append)
    done = threading.Event()
    # It is lost after the other would have been.
    after = client.lock("x", ttl="400ms", renew=False).acquire_guard()
    after.on_lost(lambda why: done.set())
    assert done.wait(SOON) and told == []
    after.release()


def test_waiting_for_a_loss_ends_with_the_release(client: lockwright.Client) -> None:
    guard = client.lock("x").acquire_guard()
    assert guard.lost.wait(0.01) is False
    assert guard.lost.wait(-1) is False
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(guard.lost.wait)
        assert guard.release() == "released"
        assert waiting.result(SOON) is False
    for timeout in float("nan"), 1e300:
        with pytest.raises(lockwright.InvalidConfig):
            guard.lost.wait(timeout)


def test_two_threads_release_once(client: lockwright.Client) -> None:
    for _ in range(50):
        guard = client.lock("x").acquire_guard()
        start = threading.Barrier(3)

        def release() -> str:
            start.wait()
            try:
                return guard.release()
            except lockwright.NotOwned:
                return "not_owned"

        def extend() -> str:
            start.wait()
            try:
                guard.extend(10)
            except (lockwright.NotOwned, lockwright.LockLost):
                pass
            return "extended"

        with ThreadPoolExecutor(3) as pool:
            results = [pool.submit(work) for work in (release, release, extend)]
            assert sorted(result.result() for result in results) == ["extended", "not_owned", "released"]


def test_a_collected_guard_warns_and_is_not_released(client: lockwright.Client, other: lockwright.Client) -> None:
    began = time.monotonic()
    guard = client.lock("x", ttl="500ms").acquire_guard()
    with pytest.warns(ResourceWarning, match="'x' was collected without a release"):
        del guard
        gc.collect()
    # Nor is it renewed: it keeps others out for its ttl.
    assert other.lock("x").acquire(timeout=SOON)
    assert time.monotonic() - began > 0.45


def test_a_collected_client_warns_of_what_it_holds(store_uri: str, other: lockwright.Client) -> None:
    with pytest.warns(ResourceWarning):
        lockwright.connect(store_uri).lock("x", ttl="500ms").acquire()
    assert other.lock("x").acquire(timeout=SOON)


def test_a_guard_in_a_cycle_is_collected(client: lockwright.Client) -> None:
    guard = client.lock("x", ttl="500ms").acquire_guard()
    guard.on_lost(lambda why: guard.release())  # type: ignore[has-type]
    gone = weakref.ref(guard)
    with pytest.warns(ResourceWarning):
        del guard
        gc.collect()
        assert gone() is None


def test_what_was_lost_or_released_is_collected_silently(client: lockwright.Client) -> None:
    guards = [lost(client), client.lock("y").acquire_guard()]
    guards[1].release()
    guards.clear()
    gc.collect()


def test_close_gives_back_what_is_held(client: lockwright.Client, store_uri: str) -> None:
    mine = lockwright.connect(store_uri)
    guard = mine.lock("x").acquire_guard()
    mine.lock("y").acquire()
    with client.lock("z"), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(mine.lock("z").acquire)
        while client.inspect("z").waiters == 0:
            assert not waiting.done()
        mine.close()
        with pytest.raises(lockwright.Closed):
            waiting.result(SOON)
    assert guard.why_lost == "closed"
    with client.lock("x"), client.lock("y"):
        pass
    with pytest.raises(lockwright.Closed):
        mine.lock("x").acquire()


def test_a_client_is_a_context_manager(client: lockwright.Client, store_uri: str) -> None:
    with lockwright.connect(store_uri) as mine:
        mine.lock("x").acquire()
    assert not client.lock("x").locked()


def test_what_others_see(client: lockwright.Client, other: lockwright.Client) -> None:
    with client.lock("x", label="report") as guard:
        seen = other.inspect("x")
        assert seen.holder is not None
        assert (seen.name, seen.waiters, seen.holder.label, seen.holder.language) == ("x", 0, "report", "python")
        assert seen.holder.first_token <= guard.token <= seen.holder.last_token
        assert 0 < seen.holder.remaining <= 30
        assert other.list() == ["x"]
    assert other.inspect("x").holder is None


def test_who_waits_in_line_is_told_how_many_are_ahead(client: lockwright.Client, other: lockwright.Client) -> None:
    def take_turn() -> None:
        with other.lock("x", fair=True, timeout=SOON):
            pass

    with ThreadPoolExecutor(2) as pool:
        with client.lock("x"):
            waiting = [pool.submit(take_turn) for _ in range(2)]
            while other.inspect("x").ahead != (0, 1):
                assert not any(one.done() for one in waiting)
            assert client.inspect("x").ahead == ()
        for one in waiting:
            one.result()


def test_promises(client: lockwright.Client) -> None:
    promised = client.guarantees()
    assert promised.fair and promised.reentrant and promised.token != "none"
    client.require(fenced=True, fair=True)
    client.require(rwlock=True, semaphore=True, latch=True, barrier=True, fenced=True, fair=True, push=True)
    with pytest.raises(lockwright.Unsupported, match="reentrant of a rwlock"):
        client.require(rwlock=True, reentrant=True)
    if not promised.shared:
        with pytest.raises(lockwright.Unsupported, match="shared"):
            client.require(shared=True)


def test_time_is_told_in_seconds(client: lockwright.Client) -> None:
    with client.lock("x"):
        began = time.monotonic()
        assert not client.lock("x").acquire(timeout=0.2)
        assert 0.2 <= time.monotonic() - began < SOON
