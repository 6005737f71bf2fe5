"""A lock behaves as `threading.Lock`, an rlock as `threading.RLock`: most tests here also run against those."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

import lockwright
import pytest

Make = Callable[[], Any]


@pytest.fixture(params=["lockwright", "threading"])
def make_lock(request: pytest.FixtureRequest, client: lockwright.Client) -> Make:
    return threading.Lock if request.param == "threading" else lambda: client.lock("x")


@pytest.fixture(params=["lockwright", "threading"])
def make_rlock(request: pytest.FixtureRequest, client: lockwright.Client) -> Make:
    return threading.RLock if request.param == "threading" else lambda: client.rlock("x")


def elsewhere(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_acquire_and_release(make_lock: Make) -> None:
    lock = make_lock()
    assert not lock.locked()
    assert lock.acquire() is True
    assert lock.locked()
    assert lock.acquire(False) is False
    assert lock.acquire(blocking=False) is False
    assert lock.acquire(timeout=0) is False
    assert lock.acquire(timeout=0.01) is False
    assert lock.acquire(True, 0.01) is False
    assert lock.release() is None
    assert not lock.locked()
    assert lock.acquire(False, -1) is True
    lock.release()


def test_release_of_what_is_not_held(make_lock: Make, make_rlock: Make) -> None:
    for lock in make_lock(), make_rlock():
        with pytest.raises(RuntimeError):
            lock.release()


@pytest.mark.parametrize("arguments", [(False, 1), (True, -2), (True, -0.5), (True, float("nan"))])
def test_wrong_arguments(make_lock: Make, make_rlock: Make, arguments: tuple[bool, float]) -> None:
    for lock in make_lock(), make_rlock():
        with pytest.raises(ValueError):
            lock.acquire(*arguments)
        assert not lock.acquire(timeout=0.0) or lock.release() is None


@pytest.mark.parametrize("timeout", [b"1", [], None])
def test_wrong_types(make_lock: Make, timeout: Any) -> None:
    with pytest.raises(TypeError):
        make_lock().acquire(timeout=timeout)


def test_another_thread_may_release_a_lock(make_lock: Make) -> None:
    lock = make_lock()
    lock.acquire()
    elsewhere(lock.release)
    assert not lock.locked()


def test_a_with_block(make_lock: Make, make_rlock: Make) -> None:
    for lock in make_lock(), make_rlock():
        with lock:
            assert not elsewhere(lambda: lock.acquire(blocking=False))
        with pytest.raises(KeyError):
            with lock:
                raise KeyError
        assert elsewhere(lambda: lock.acquire(blocking=False) and lock.release() is None)


def test_an_rlock_is_acquired_again(make_rlock: Make) -> None:
    lock = make_rlock()
    taken_elsewhere = lambda: elsewhere(lambda: lock.acquire(blocking=False) and lock.release() is None)
    with lock:
        assert lock.acquire()
        with lock:
            assert not taken_elsewhere()
        lock.release()
        assert not taken_elsewhere()
        with pytest.raises(RuntimeError):
            elsewhere(lock.release)
        assert not taken_elsewhere()
    assert taken_elsewhere()
    with pytest.raises(RuntimeError):
        lock.release()


def test_threads_exclude_each_other(make_lock: Make, make_rlock: Make) -> None:
    for lock in make_lock(), make_rlock():
        count, inside = 0, threading.BoundedSemaphore()

        def work() -> None:
            nonlocal count
            for _ in range(50):
                with lock:
                    assert inside.acquire(blocking=False)
                    count += 1
                    inside.release()

        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(work) for _ in range(8)]:
                done.result()
        assert count == 400


def test_waiting_lets_other_threads_run(make_lock: Make) -> None:
    lock = make_lock()
    lock.acquire()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lock.acquire, timeout=20)
        # With the GIL held by the waiter nobody would get here.
        assert sum(range(100_000)) > 0 and not waiting.done()
        lock.release()
        assert waiting.result()
    lock.release()


def test_a_thread_that_is_gone_is_no_owner(client: lockwright.Client) -> None:
    lock = client.rlock("x", ttl=60)
    guards = []
    # The system gives a new thread the id of one that ended.
    for _ in range(3):
        guards.append(elsewhere(lock.try_acquire))
    assert guards[1:] == [None, None]
    guards[0].release()


def test_rlocks_of_one_name_are_one(client: lockwright.Client) -> None:
    with client.rlock("x") as outer, client.rlock("x") as inner:
        assert (outer.depth, inner.depth, inner.token) == (1, 2, outer.token)


def test_locks_of_one_name_are_told_apart(client: lockwright.Client) -> None:
    first, second = client.lock("x"), client.lock("x")
    first.acquire()
    assert not second.acquire(blocking=False) and second.locked()
    with pytest.raises(lockwright.NotOwned):
        second.release()
    first.release()


def test_what_was_acquired_outlives_the_lock(client: lockwright.Client, other: lockwright.Client) -> None:
    client.lock("x").acquire()
    assert other.lock("x").locked()
    client.lock("x").release()
    assert not other.lock("x").locked()
    with pytest.raises(lockwright.NotOwned):
        client.lock("x").release()


def test_guarded(client: lockwright.Client) -> None:
    lock = client.lock("x")

    class Report:
        @lock.guarded
        def write(self, text: str, *, end: str = "") -> str:
            """Writes."""
            assert not client.lock("x").acquire(blocking=False)
            if not text:
                raise KeyError(text)
            return text + end

    assert Report().write("a", end="b") == "ab"
    assert (Report.write.__name__, Report.write.__doc__) == ("write", "Writes.")
    with pytest.raises(KeyError):
        Report().write("")
    assert not lock.locked()


def test_guarded_refuses_what_runs_later(client: lockwright.Client) -> None:
    async def coroutine() -> None: ...

    def generator() -> Any:
        yield

    async def both() -> Any:
        yield

    for later in coroutine, generator, both:
        with pytest.raises(TypeError, match="cannot guard"):
            client.lock("x").guarded(later)


@pytest.mark.parametrize("kind", ["lock", "rlock"])
def test_a_condition_over_it(client: lockwright.Client, kind: str) -> None:
    lock = getattr(client, kind)("x")
    condition = threading.Condition(lock)
    items: list[int] = []
    got: list[int] = []

    def consume() -> None:
        with condition:
            assert condition.wait_for(lambda: items, timeout=20)
            got.append(items.pop())

    consumer = threading.Thread(target=consume)
    consumer.start()
    with condition:
        items.append(1)
        condition.notify()
    consumer.join()
    assert got == [1]
    assert not client.lock("x").locked()


def test_a_condition_over_a_lock_held_twice(client: lockwright.Client) -> None:
    lock = client.rlock("x")
    condition = threading.Condition(lock)
    with pytest.raises(RuntimeError):
        condition.notify()
    lock.acquire()
    with condition:
        assert not condition.wait(0.01)
        assert lock.locked()
        condition.notify()
    lock.release()
    assert not lock.locked()
    with pytest.raises(lockwright.NotOwned):
        lock.release()


def test_a_block_that_released_and_acquired_again_releases_at_its_end(client: lockwright.Client) -> None:
    lock = client.lock("x")
    with lock:
        lock.release()
        assert not lock.locked()
        lock.acquire()
    assert not lock.locked()


def test_limits_as_threading_has_them(client: lockwright.Client) -> None:
    lock = client.lock("x")
    assert lock.acquire(timeout=threading.TIMEOUT_MAX)
    lock.release()
    for limit in threading.TIMEOUT_MAX * 2, float("inf"), 10**400:
        with pytest.raises(OverflowError, match="TIMEOUT_MAX"):
            lock.acquire(timeout=limit)
