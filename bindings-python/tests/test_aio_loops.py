"""Event loops that are several, closed, inherited or unusual."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, List

import lockwright
import lockwright.aio as aio
import pytest

from conftest import Run, fork, joined
from test_leaks import nothing_left as nothing_left

SOON = 20


async def use(client: aio.Client, name: str = "x") -> int:
    async with client.lock(name) as guard:
        return guard.token


def test_one_loop_after_another(store_uri: str, run: Run) -> None:
    client = aio.connect(store_uri)
    tokens = [run(use(client)) for _ in range(3)]
    assert tokens == sorted(set(tokens))
    guard = run(client.lock("x").acquire_guard())
    assert guard.is_held and not run(client.lock("x").acquire(False))
    assert run(guard.release()) == "released"
    run(client.close())


def test_loops_in_threads_share_a_client(store_uri: str, run: Run) -> None:
    client, count, inside = aio.connect(store_uri), 0, threading.Lock()

    async def work() -> None:
        nonlocal count
        lock = client.lock("x")
        for _ in range(10):
            async with lock:
                assert inside.acquire(blocking=False)
                before = count
                await asyncio.sleep(0)
                count = before + 1
                inside.release()

    async def several() -> None:
        await asyncio.gather(*(work() for _ in range(5)))

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(run, several()) for _ in range(4)]:
            done.result()
    assert count == 200
    run(client.close())


def test_a_loss_is_told_in_every_loop(store_uri: str, run: Run) -> None:
    client = aio.connect(store_uri)
    guard = run(client.lock("x", ttl="200ms", renew=False).acquire_guard())

    async def lost() -> bool:
        return await asyncio.wait_for(guard.lost.wait(), SOON)

    with ThreadPoolExecutor(3) as pool:
        assert [done.result() for done in [pool.submit(run, lost()) for _ in range(3)]] == [True] * 3
    run(client.close())


def test_a_loop_that_ends_gives_up_what_it_waits_for(store_uri: str, run: Run) -> None:
    client, held = aio.connect(store_uri), lockwright.connect(store_uri)
    lock = held.lock("x")

    async def leave_waiting() -> None:
        tasks.append(asyncio.create_task(use(client)))
        while held.inspect("x").waiters == 0:
            await asyncio.sleep(0.001)

    tasks: List[Any] = []
    if held.guarantees().shared:
        with lock:
            run(leave_waiting())
            assert tasks.pop().cancelled()
            # A loop that nobody closes is collected, and its tasks with it.
            loop = asyncio.new_event_loop()
            loop.set_exception_handler(lambda loop, context: None)
            loop.run_until_complete(leave_waiting())
            loop.close()
            del loop
            tasks.clear()
            gc.collect()
            while held.inspect("x").waiters:
                pass
    with lock:
        pass
    run(client.close())


def test_loops_leave_nothing_behind(store_uri: str, run: Run, nothing_left: Callable[[], None]) -> None:
    def once() -> None:
        client = aio.connect(store_uri)
        run(use(client))
        run(client.close())

    async def with_a_guard_that_is_watched() -> None:
        async with aio.connect(store_uri) as client:
            guard = await client.lock("y").acquire_guard()
            guard.on_lost(lambda why: guard.is_held)
            await guard.release()

    once()
    run(with_a_guard_that_is_watched())
    gc.collect()
    nothing_left()
    for _ in range(20):
        once()
        run(with_a_guard_that_is_watched())
    gc.collect()


class Unwatching(asyncio.SelectorEventLoop):
    """As the loop of another system, which knows no descriptors."""

    def add_reader(self, *arguments: Any) -> None:
        raise NotImplementedError


def test_a_loop_that_watches_no_descriptors(store_uri: str) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client, aio.connect(store_uri) as other:
            lock = other.lock("x", ttl="100ms", renew=False)
            async with client.lock("x"):
                assert not await lock.acquire(timeout=0.01)
            await asyncio.gather(*(use(c) for c in (client, other) for _ in range(5)))
            with pytest.raises(lockwright.LockLost):
                async with lock as guard:
                    await guard.lost.wait()

    loop = Unwatching()
    try:
        loop.run_until_complete(asyncio.wait_for(main(), SOON))
    finally:
        loop.close()
    while any(thread.name == "lockwright-watch" for thread in threading.enumerate()):
        pass


def test_a_child_uses_a_loop_of_its_own(store_uri: str, run: Run) -> None:
    client = aio.connect(store_uri)

    def child(guard: aio.Guard) -> None:
        async def main() -> None:
            assert not guard.is_held and "parent" in repr(guard)
            for use_it in guard.release, lambda: guard.extend(10), guard.__aenter__, guard.lost.wait:
                with pytest.raises(lockwright.Forked):
                    await use_it()
            await guard.__aexit__()
            if client.guarantees().shared:
                assert not await client.lock("x").acquire(False)
            await asyncio.gather(*(use(client, "of the child") for _ in range(3)))

        run(main())
        gc.collect()

    async def main() -> None:
        async with client.lock("x") as guard:
            # In the middle of a running loop, with one more waiting.
            waiting = asyncio.create_task(use(client))
            await asyncio.sleep(0)
            for _ in range(3):
                assert joined(fork(lambda: child(guard))) == 0
            assert guard.is_held
        await waiting

    run(main())
    run(client.close())


def test_a_loop_that_was_used_before_a_fork_is_refused(store_uri: str) -> None:
    client, loop = aio.connect(store_uri), asyncio.new_event_loop()
    loop.run_until_complete(use(client))

    def child() -> None:
        with pytest.raises(lockwright.Forked, match="run a new one"):
            loop.run_until_complete(use(client))
        asyncio.run(use(client))

    assert joined(fork(child)) == 0
    loop.run_until_complete(use(client))
    loop.run_until_complete(client.close())
    loop.close()


def test_cancelled_by_the_end_of_the_loop(store_uri: str, run: Run) -> None:
    """`asyncio.run` cancels what is left: blocks give back what they hold."""
    client = aio.connect(store_uri)

    async def hold() -> None:
        async with client.lock("x"):
            await asyncio.sleep(SOON)

    async def main() -> None:
        tasks.append(asyncio.create_task(hold()))
        while not await client.lock("x").locked():
            pass

    tasks: List[Any] = []
    run(main())
    assert run(use(client)) > 0
    run(client.close())
