from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import threading
from contextlib import ExitStack
from typing import Iterator, Optional

import lockwright
import pytest
from conftest import fork, joined

# Newer Pythons warn of every fork beside threads, which is what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def client(store_uri: str) -> Iterator[lockwright.Client]:
    """One that has patience with a machine that so many processes keep busy."""
    with lockwright.connect(store_uri, connect_timeout=60, store_timeout=60) as client:
        yield client


@pytest.fixture
def held(client: lockwright.Client) -> Iterator[lockwright.Guard]:
    """What the parent holds all the time, and still does when its children are gone."""
    with client.lock("held") as guard:
        yield guard
        assert guard.is_held


def test_an_inherited_client_connects_anew(client: lockwright.Client, held: lockwright.Guard) -> None:
    lock = client.lock("x")

    def child() -> None:
        for lock_of_child in lock, client.lock("x"), client.rlock("y"):
            with lock_of_child as guard:
                assert guard.is_held
        assert client.inspect("x").holder is None
        if client.guarantees().shared:
            assert client.lock("held").try_acquire() is None

    with lock:
        pass
    assert joined(fork(child)) == 0


def test_an_inherited_guard_is_forked(client: lockwright.Client, held: lockwright.Guard) -> None:
    lock, rlock = client.lock("x"), client.rlock("y")
    lock.acquire()
    rlock.acquire()

    def child() -> None:
        for use in held.release, held.__enter__, held.lost.is_set, held.lost.wait, lock.release, rlock.release:
            with pytest.raises(lockwright.Forked):
                use()
        with pytest.raises(lockwright.Forked):
            held.extend(10)
        with pytest.raises(lockwright.Forked):
            held.on_lost(print)
        assert not held.is_held and held.remaining() == 0 and held.why_lost is None
        assert held.name == "held" and held.token > 0 and "parent" in repr(held)

    assert joined(fork(child)) == 0
    rlock.release()
    lock.release()


def test_leaving_an_inherited_block_is_silent(client: lockwright.Client) -> None:
    with ExitStack() as blocks:
        guards = [blocks.enter_context(client.lock("x")), blocks.enter_context(client.lock("y").acquire_guard())]
        assert joined(fork(blocks.close)) == 0
        assert all(guard.is_held for guard in guards)


def test_an_inherited_guard_is_collected_silently(client: lockwright.Client) -> None:
    guards = [client.lock("x").acquire_guard()]
    lock = client.lock("y")
    lock.acquire()
    read, write = os.pipe()

    def child() -> None:
        nonlocal lock
        os.dup2(write, sys.__stderr__.fileno())
        guards.clear()
        del lock
        gc.collect()

    pid = fork(child)
    os.close(write)
    with os.fdopen(read) as said:
        assert said.read() == ""
    assert joined(pid) == 0
    assert guards[0].release() == "released"
    lock.release()


def test_a_child_that_closes_its_client_frees_nothing(client: lockwright.Client, held: lockwright.Guard) -> None:
    lock = client.lock("x")
    lock.acquire()

    def child() -> None:
        with pytest.raises(lockwright.LockLost), client.lock("y"):
            client.close()
        with pytest.raises(lockwright.Closed):
            client.lock("y").acquire()

    assert joined(fork(child)) == 0
    assert not client.lock("x").acquire(blocking=False)
    lock.release()


def test_callbacks_of_a_child(client: lockwright.Client) -> None:
    def lose() -> None:
        told = threading.Event()
        with pytest.raises(lockwright.LockLost):
            with client.lock("x", ttl="200ms", renew=False) as guard:
                guard.on_lost(lambda why: told.set())
                assert told.wait(20)

    lose()
    assert joined(fork(lose)) == 0
    lose()


def test_grandchildren(client: lockwright.Client, held: lockwright.Guard) -> None:
    def use() -> None:
        with client.lock("x"):
            pass

    def child() -> None:
        use()
        assert joined(fork(use)) == 0
        use()

    assert joined(fork(child)) == 0


def test_multiprocessing(client: lockwright.Client, held: lockwright.Guard) -> None:
    def work() -> None:
        for _ in range(20):
            with client.lock("x"):
                pass

    workers = [multiprocessing.get_context("fork").Process(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 4


def test_forks_beside_threads_that_lock(client: lockwright.Client, held: lockwright.Guard) -> None:
    """In whatever mutex a fork finds the threads, no child hangs, and none frees what the parent holds."""
    shared = client.lock("shared")
    over = threading.Event()
    turned = [threading.Event() for _ in range(6)]
    failures: list[BaseException] = []

    def soon_lost(renew: bool) -> Optional[lockwright.Guard]:
        try:
            return client.lock("guard", ttl="50ms", renew=renew).try_acquire()
        except lockwright.LockLost:
            # On a busy machine it may be over before the call returns.
            return None

    def in_a_moment() -> bool:
        try:
            return shared.acquire(timeout=0.01)
        except lockwright.Unavailable:
            # On a busy machine the store may not answer within that.
            return False

    def hammer(number: int) -> None:
        own = client.rlock(f"own {number}")
        try:
            while not over.is_set():
                with own, own:
                    pass
                if in_a_moment():
                    shared.release()
                guard = soon_lost(renew=number % 2 == 0)
                if guard is not None:
                    guard.on_lost(lambda why: None)
                    guard.lost.wait(0)
                    guard.release()
                turned[number].set()
        except BaseException as error:
            failures.append(error)

    def child() -> None:
        for _ in range(5):
            with client.lock("of the children"), client.rlock("shared by the children", timeout=20):
                pass
            if not client.guarantees().shared:
                with shared:
                    pass
        with pytest.raises(lockwright.Forked):
            held.release()
        gc.collect()

    threads = [threading.Thread(target=hammer, args=(number,)) for number in range(len(turned))]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            for turn in turned:
                turn.clear()
            assert [joined(pid) for pid in [fork(child) for _ in range(4)]] == [0] * 4
            for turn in turned:
                while not turn.wait(0.1):
                    assert not failures
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failures


def test_a_restored_process_believes_no_guard_made_before(client: lockwright.Client) -> None:
    # In a child, since it concerns the whole process.
    def child() -> None:
        entered = client.lock("entered", ttl=1).__enter__()
        lockwright.restored()
        assert not entered.is_held
        with pytest.raises(lockwright.Forked):
            entered.release()
        with client.lock("entered", ttl=1) as again:
            assert again.is_held

    assert joined(fork(child)) == 0
