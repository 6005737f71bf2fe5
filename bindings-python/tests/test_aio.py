"""What is peculiar to asyncio. Each test runs in asyncio's own loop and in uvloop's."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import time
from typing import Any, Awaitable, Callable, Coroutine, List

import lockwright
import lockwright.aio as aio
import pytest

from conftest import Run, soon_lost_by_task

SOON = 20
"""Seconds after which what should have happened at once did not."""


async def lost(client: aio.Client, name: str = "x") -> aio.Guard:
    guard = await soon_lost_by_task(client, name)
    assert await asyncio.wait_for(guard.lost.wait(), SOON)
    return guard


async def waits(client: aio.Client, name: str) -> None:
    """Until somebody waits at the store."""
    while (await client.inspect(name)).waiters == 0:
        await asyncio.sleep(0)


async def elsewhere(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return await asyncio.create_task(work())


def test_what_a_guard_tells(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            guard = await client.lock("orders:42", ttl=10).acquire_guard()
            assert (guard.name, guard.depth, guard.epoch) == ("orders:42", 1, 0)
            assert isinstance(guard.token, int) and guard.token > 0
            assert guard.is_held and 5 < guard.remaining() < 10
            assert guard.why_lost is None and not guard.lost.is_set()
            assert repr(guard).startswith("<lockwright.aio.Guard 'orders:42' token") and "held" in repr(guard)
            await guard.extend(60)
            assert guard.remaining() > 50
            for ttl in 0, -1, float("nan"), 1e9:
                with pytest.raises(lockwright.InvalidConfig):
                    await guard.extend(ttl)
            assert await guard.release() == "released"
            assert not guard.is_held and guard.why_lost is None and "released" in repr(guard)
            for again in guard.release, guard.__aenter__, lambda: guard.extend(10):
                with pytest.raises(lockwright.NotOwned):
                    await again()
            async with client.lock("orders:42") as later:
                assert later.token > guard.token

    run(main())


def test_as_a_lock_of_asyncio(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            lock = client.lock("x")
            assert not await lock.locked()
            assert await lock.acquire() is True
            assert await lock.locked() and await client.lock("x").locked()
            for attempt in lock.acquire(False), lock.acquire(timeout=0), lock.acquire(timeout=0.01):
                assert await attempt is False
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(lock.acquire(), 0.05)
            # Any task may release it.
            await elsewhere(lock.release)
            assert not await lock.locked()
            with pytest.raises(RuntimeError):
                await lock.release()
            with pytest.raises(KeyError):
                async with lock:
                    raise KeyError
            assert not await lock.locked()
            for arguments in [(False, 1), (True, -2), (True, -0.5), (True, float("nan"))]:
                with pytest.raises(ValueError):
                    await lock.acquire(*arguments)
            assert "aio.Lock 'x' on " in repr(lock)

    run(main())


def test_first_come_first_served(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            lock, order = client.lock("x"), []

            async def work(number: int) -> None:
                async with lock:
                    order.append(number)

            async with lock:
                tasks = []
                for number in range(10):
                    tasks.append(asyncio.create_task(work(number)))
                    await asyncio.sleep(0)
            await asyncio.gather(*tasks)
            assert order == list(range(10))

    run(main())


def test_tasks_exclude_each_other(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client, aio.connect(store_uri) as other:
            count = 0

            async def work(lock: aio.Lock) -> None:
                nonlocal count
                for _ in range(20):
                    async with lock:
                        before = count
                        await asyncio.sleep(0)
                        count = before + 1

            await asyncio.gather(*(work(c.lock("x")) for c in (client, other) for _ in range(5)))
            assert count == 200

    run(main())


def test_many_that_are_told_together(store_uri: str, run: Run) -> None:
    """All are told, whether or not those that are told first ask for more."""

    async def main() -> None:
        async with aio.connect(store_uri) as client:
            locks = [client.lock(f"together-{number}") for number in range(40)]

            async def work(number: int) -> aio.Guard:
                guard = await locks[number].acquire_guard()
                if number % 2:
                    await guard.release()
                    guard = await locks[number].acquire_guard()
                return guard

            guards = await asyncio.wait_for(asyncio.gather(*map(work, range(40))), SOON)
            assert all(guard.is_held for guard in guards)
            assert [await guard.release() for guard in guards] == 40 * ["released"]

    run(main())


def test_the_first_that_is_told_cancels_the_others(store_uri: str, run: Run) -> None:
    """What they were granted in the same moment is given back."""

    async def main() -> None:
        async with aio.connect(store_uri) as client:
            tasks: List["asyncio.Task[aio.Guard]"] = []

            async def first_alone(number: int) -> aio.Guard:
                guard = await client.lock(f"one-{number}").acquire_guard()
                for task in tasks:
                    if task is not asyncio.current_task():
                        task.cancel()
                return guard

            tasks += [asyncio.create_task(first_alone(number)) for number in range(20)]
            got = await asyncio.gather(*tasks, return_exceptions=True)
            held = [guard for guard in got if isinstance(guard, aio.Guard)]
            assert held and all(guard.is_held for guard in held)
            for guard in held:
                await guard.release()
            for number in range(20):
                async with client.lock(f"one-{number}", timeout=SOON):
                    pass

    run(main())


def test_what_cannot_be_had(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            lock = client.lock("x", timeout=0.01)
            async with client.lock("x"):
                assert await lock.try_acquire() is None
                for attempt in lock.acquire_guard(), lock.acquire_guard(0), lock.__aenter__():
                    with pytest.raises(TimeoutError) as raised:
                        await attempt
                    assert isinstance(raised.value, lockwright.LockTimeout) and raised.value.lock == "x"
                assert not await lock.acquire()
            guard = await lock.try_acquire()
            assert guard is not None and await guard.release() == "released"
            for name in "", "a\0b", "\ud800", "n" * 1025:
                with pytest.raises(lockwright.InvalidConfig):
                    client.lock(name)

    run(main())


def test_an_rlock_belongs_to_its_task(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            lock = client.rlock("x")

            async def take() -> bool:
                return await lock.acquire(blocking=False)

            async with lock as outer:
                async with client.rlock("x") as inner:
                    assert (outer.depth, inner.depth, inner.token) == (1, 2, outer.token)
                    # A child begins with a copy of the context, but it is another task.
                    assert not await elsewhere(take)
                assert await lock.acquire()
                with pytest.raises(lockwright.NotOwned):
                    await elsewhere(lock.release)
                await lock.release()
                guard = await lock.acquire_guard()
                assert await guard.release() == "kept"
                assert not await elsewhere(take)
            assert await take()
            await lock.release()
            with pytest.raises(RuntimeError):
                await lock.release()

    run(main())


def test_a_task_that_is_gone_is_no_owner(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            lock = client.rlock("x", ttl=60)
            guard = await elsewhere(lock.try_acquire)
            for _ in range(20):
                # A new task's object lies where an old one's lay.
                assert await elsewhere(lock.try_acquire) is None
            await guard.release()

    run(main())


def test_tasks_that_share_a_context_are_two_owners(store_uri: str) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            lock, context = client.rlock("x"), contextvars.copy_context()
            held, over = asyncio.Event(), asyncio.Event()

            async def hold() -> None:
                async with lock:
                    held.set()
                    await over.wait()
                    async with lock as again:
                        assert again.depth == 2

            async def take() -> None:
                await held.wait()
                assert not await lock.acquire(blocking=False)
                over.set()

            loop = asyncio.get_running_loop()
            tasks = [context.run(loop.create_task, work()) for work in (hold, take)]
            await asyncio.gather(*tasks)

    asyncio.run(main())


def test_a_block_without_an_error_raises_the_loss(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            lock = client.lock("x", ttl="200ms", renew=False)
            with pytest.raises(lockwright.LockLost) as raised:
                async with lock as guard:
                    assert await guard.lost.wait()
            assert (raised.value.lock, raised.value.operation) == ("x", "release")
            assert guard.why_lost == "not_renewed" and guard.lost.is_set()
            with pytest.raises(lockwright.LockLost):
                async with await lock.acquire_guard() as guard:
                    await guard.lost.wait()
            with pytest.raises(lockwright.LockLost):
                await guard.extend(10) if guard.is_held else await (await lost(client, "y")).extend(10)
            await lock.acquire()
            async with client.lock("x"):
                pass
            with pytest.raises(lockwright.LockLost):
                await lock.release()
            with pytest.raises(lockwright.NotOwned):
                await lock.release()

    run(main())


def test_a_task_that_is_over_is_not_taken_for_another(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            lock = client.lock("x")
            guard = await asyncio.create_task(lock.acquire_guard())
            for _ in range(20):
                # Each of these tasks may lie where the one that acquired it did.
                waits = asyncio.create_task(lock.acquire_guard())
                await asyncio.sleep(0)
                await asyncio.wait([waits], timeout=0.002)
                waits.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waits
            await guard.release()

    run(main())


def test_a_block_with_an_error_raises_that(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            with pytest.raises(KeyError) as raised:
                async with client.lock("x", ttl="200ms", renew=False) as guard:
                    await guard.lost.wait()
                    raise KeyError
            assert raised.value.__context__ is None
            with pytest.raises(KeyError):
                async with await lost(client):
                    raise KeyError

    run(main())


def test_a_block_may_give_back_by_itself(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            lock = client.lock("x", cancel_on_loss=True)
            async with lock as guard:
                await guard.release()
                # By now it may be somebody else's.
                async with await lock.acquire_guard() as later:
                    assert later.is_held
            async with lock:
                await lock.release()
            async with await lock.acquire_guard() as guard:
                await guard.release()
            assert not await lock.locked()

    run(main())


def test_cancel_on_loss(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            lock = client.lock("x", ttl="200ms", renew=False, cancel_on_loss=True)
            cancelled = False
            with pytest.raises(lockwright.LockLost) as raised:
                async with lock as guard:
                    try:
                        await asyncio.sleep(SOON)
                    except asyncio.CancelledError:
                        cancelled = True
                        raise
            assert cancelled and isinstance(raised.value.__cause__, asyncio.CancelledError)
            with pytest.raises(lockwright.NotOwned):
                await guard.release()
            # Nothing of it is left.
            await asyncio.sleep(0)
            assert not hasattr(asyncio.Task, "cancelling") or asyncio.current_task().cancelling() == 0  # type: ignore

            # A block that ends before it is told raises the loss too, and whoever awaits next is not cancelled.
            with pytest.raises(lockwright.LockLost):
                async with lock as guard:
                    while guard.is_held:
                        pass
            await asyncio.sleep(0.01)

            # One that goes on all the same is not stopped.
            with pytest.raises(lockwright.LockLost):
                async with lock:
                    try:
                        await asyncio.sleep(SOON)
                    except asyncio.CancelledError:
                        await asyncio.sleep(0)

            # What it raises itself comes first.
            with pytest.raises(KeyError):
                async with lock:
                    try:
                        await asyncio.sleep(SOON)
                    finally:
                        raise KeyError

            # Nobody is cancelled for a lock that was released.
            async with client.lock("x", ttl=2, renew=False, cancel_on_loss=True) as guard:
                await guard.release()
                await lost(client)

    run(main())


def test_cancel_on_loss_beside_another_cancellation(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            lock = client.lock("x", ttl="200ms", renew=False, cancel_on_loss=True)
            kept = client.lock("x", cancel_on_loss=True)
            at = asyncio.Event()

            async def hold(lock: aio.Lock) -> None:
                async with lock:
                    at.set()
                    await asyncio.sleep(SOON)

            # Somebody else's cancellation is not taken for the loss.
            task = asyncio.create_task(hold(kept))
            await at.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not await lock.locked()

            # Nor is it swallowed when both come at once.
            if hasattr(asyncio.Task, "cancelling"):

                async def lose() -> None:
                    async with lock:
                        try:
                            await asyncio.sleep(SOON)
                        finally:
                            asyncio.current_task().cancel()  # type: ignore[union-attr]

                with pytest.raises(asyncio.CancelledError):
                    await asyncio.create_task(lose())

            # A time limit around it works, and one inside.
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(hold(kept), 0.02)
            with pytest.raises(lockwright.LockLost):
                await asyncio.wait_for(hold(lock), SOON)
            with pytest.raises(lockwright.LockLost):
                async with lock:
                    await asyncio.wait_for(asyncio.sleep(SOON), SOON)

    run(main())


@pytest.mark.skipif(not hasattr(asyncio, "TaskGroup"), reason="Python 3.11")
def test_cancel_on_loss_in_a_group_of_tasks(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            lock = client.lock("x", ttl="200ms", renew=False, cancel_on_loss=True)

            async def hold() -> None:
                async with lock:
                    async with asyncio.TaskGroup() as inner:
                        inner.create_task(asyncio.sleep(SOON))

            with pytest.raises(BaseExceptionGroup) as raised:
                async with asyncio.TaskGroup() as group:
                    group.create_task(hold())
                    group.create_task(asyncio.sleep(SOON))
            assert [type(error) for error in raised.value.exceptions] == [lockwright.LockLost]
            with pytest.raises(lockwright.LockLost):
                async with lock:
                    async with asyncio.timeout(SOON):
                        await asyncio.sleep(SOON)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    async with lock:
                        await asyncio.sleep(SOON)

    run(main())


def test_a_loss_is_told(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            guard = await soon_lost_by_task(client, "x")
            told: List[str] = []
            guard.on_lost(told.append)
            waiting = asyncio.create_task(guard.lost.wait())
            given_up = asyncio.create_task(guard.lost.wait())
            await asyncio.sleep(0)
            given_up.cancel()
            assert await asyncio.wait_for(waiting, SOON) is True
            while not told:
                await asyncio.sleep(0)
            assert told == ["not_renewed"] and guard.lost.is_set() and await guard.lost.wait()
            guard.on_lost(told.append)
            while len(told) < 2:
                await asyncio.sleep(0)
            assert await guard.release() in ("expired", "stolen")

            # Nothing is told of a guard that was released.
            guard = await client.lock("x").acquire_guard()
            guard.on_lost(told.append)
            waiting = asyncio.create_task(guard.lost.wait())
            await asyncio.sleep(0)
            await guard.release()
            assert await asyncio.wait_for(waiting, SOON) is False
            assert await guard.lost.wait() is False
            await lost(client)
            assert len(told) == 2

    run(main())


def test_what_others_see(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client, aio.connect(store_uri) as other:
            async with client.lock("x", label="report") as guard:
                seen = await other.inspect("x")
                assert seen.holder is not None
                assert (seen.name, seen.waiters, seen.holder.label, seen.holder.language) == ("x", 0, "report", "python")
                assert await other.list() == ["x"]
                assert not await other.break_lock("x", guard.token + 1000)
                with pytest.raises(lockwright.InvalidConfig):
                    await other.break_lock("x", -1)
                with pytest.raises(lockwright.InvalidConfig):
                    await other.inspect("")
                assert (await other.lock("x").inspect()).holder == seen.holder or seen.holder.held_for is not None
                assert not await other.lock("x").break_lock(guard.token + 1000)
                assert other.lock("x").guarantees() == client.guarantees()
            with pytest.raises(lockwright.LockLost):
                # It is told at its next renewal.
                async with client.lock("x", ttl=1, cancel_on_loss=True) as guard:
                    assert await other.break_lock("x", guard.token)
                    await asyncio.sleep(SOON)
            promised = client.guarantees()
            assert promised.fair and promised.reentrant
            client.require(fenced=True, fair=True)
            client.require(rwlock=True, semaphore=True, latch=True, barrier=True, fenced=True, fair=True)
            with pytest.raises(lockwright.Unsupported, match="reentrant of a semaphore"):
                client.require(semaphore=True, reentrant=True)

    run(main())


def test_close(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            async with aio.connect(store_uri) as mine:
                guard = await mine.lock("x").acquire_guard()
                await mine.lock("y").acquire()
                async with client.lock("z"):
                    waiting = asyncio.create_task(mine.lock("z").acquire())
                    await waits(client, "z")
                    await mine.close()
                    with pytest.raises(lockwright.Closed):
                        await asyncio.wait_for(waiting, SOON)
            assert guard.why_lost == "closed"
            async with client.lock("x"), client.lock("y"):
                pass
            with pytest.raises(lockwright.Closed):
                await mine.lock("x").acquire()

    run(main())


def test_what_nobody_releases(store_uri: str) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            # What `acquire` took outlives the lock.
            await client.lock("x").acquire()
            assert await client.lock("x").locked()
            await client.lock("x").release()
            # A guard that is collected warns, is not released, and is not renewed.
            began = time.monotonic()
            guard = await client.lock("x", ttl="500ms").acquire_guard()
            with pytest.warns(ResourceWarning, match="'x' was collected without a release"):
                del guard
                gc.collect()
            assert await client.lock("x").acquire(timeout=SOON)
            assert time.monotonic() - began > 0.45
            await client.lock("x").release()

    asyncio.run(main())


def test_guarded(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            lock = client.lock("x")

            class Report:
                @lock.guarded
                async def write(self, text: str, *, end: str = "") -> str:
                    """Writes."""
                    assert not await client.lock("x").acquire(blocking=False)
                    if not text:
                        raise KeyError(text)
                    return text + end

            assert inspect.iscoroutinefunction(Report.write)
            assert await Report().write("a", end="b") == "ab"
            assert (Report.write.__name__, Report.write.__doc__) == ("write", "Writes.")
            with pytest.raises(KeyError):
                await Report().write("")
            assert not await lock.locked()

    run(main())


def test_guarded_refuses_what_it_cannot_guard(store_uri: str) -> None:
    def function() -> None: ...

    def generator() -> Any:
        yield

    async def both() -> Any:
        yield

    async def coroutine() -> None: ...

    client = aio.connect(store_uri)
    for other, instead in [
        (function, "lock of lockwright.connect"),
        (generator, "inside"),
        (both, "async generator.*inside"),
        (lambda: coroutine(), "lock of lockwright.connect"),
    ]:
        with pytest.raises(TypeError, match=f"cannot guard it: .*{instead}|{instead}"):
            client.lock("x").guarded(other)
    with pytest.raises(TypeError, match="lock of lockwright.aio"):
        lockwright.connect(store_uri).lock("x").guarded(coroutine)


def test_credentials_are_a_plain_function() -> None:
    async def credentials() -> Any: ...

    with pytest.raises(lockwright.InvalidConfig, match="plain function"):
        aio.connect("memory://", credentials=credentials)  # type: ignore[arg-type]


def test_outside_an_event_loop(store_uri: str) -> None:
    client = aio.connect(store_uri)
    waiting = client.lock("x").acquire()
    with pytest.raises(RuntimeError):
        waiting.send(None)
    with pytest.raises(TypeError):
        with client.lock("x"):  # type: ignore[attr-defined]
            pass
