"""What a program does around its locks: ping, drain, a least time, to resume with other options, to lead."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, Iterator

import lockwright
import pytest
from lockwright import aio

NOBODY = "redis://127.0.0.1:1"


def waits(client: Any, count: int = 1) -> bool:
    """Once so many acquisitions of the client wait."""
    until = time.monotonic() + 20
    while client.metrics().waiting < count and time.monotonic() < until:
        time.sleep(0.001)
    return bool(client.metrics().waiting >= count)


def test_a_store_that_serves_is_well(client: lockwright.Client, store_uri: str) -> None:
    health = client.ping()
    assert 0 < health.took < 5 and not health.may_evict
    assert health.eviction == ("noeviction" if store_uri.startswith("redis") else None)

    async def main() -> None:
        async with aio.connect(store_uri) as tasks:
            assert (await tasks.ping()).eviction == health.eviction

    asyncio.run(main())
    client.close()
    with pytest.raises(lockwright.Closed):
        client.ping()


def test_a_store_that_nobody_serves_is_not_well() -> None:
    began = time.monotonic()
    with lockwright.connect(NOBODY) as client, pytest.raises(lockwright.Unavailable):
        client.ping()

    async def main() -> None:
        async with aio.connect(NOBODY) as client:
            with pytest.raises(lockwright.Unavailable):
                await client.ping()

    asyncio.run(main())
    assert time.monotonic() - began < 4


def test_a_drained_client_begins_nothing_and_waits_for_what_is_held(client: lockwright.Client) -> None:
    guard = client.lock("x").acquire_guard()
    refused = []

    def wait() -> None:
        with pytest.raises(lockwright.Closed) as error:
            client.lock("x").acquire()
        refused.append(error.value)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert waits(client)
    assert client.drain(0.1) == ["x"]
    waiting.join()
    assert refused
    with pytest.raises(lockwright.Closed, match="drained"):
        client.lock("y").try_acquire()
    release = threading.Timer(0.15, guard.release)
    release.start()
    began = time.monotonic()
    assert client.drain(20) == []
    assert time.monotonic() - began < 10
    release.join()
    with pytest.raises(lockwright.InvalidConfig, match="limit"):
        client.drain(-1)


def test_a_signal_ends_a_drain(client: lockwright.Client) -> None:
    import _thread

    with client.lock("x"):
        threading.Timer(0.1, _thread.interrupt_main).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            client.drain(20)
        assert time.monotonic() - began < 10


def test_a_task_drains_while_another_releases(store_uri: str) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            guard = await client.lock("x").acquire_guard()
            waiting = asyncio.create_task(client.lock("x").acquire())
            while client.metrics().waiting == 0:
                await asyncio.sleep(0)
            assert await client.drain("50ms") == ["x"]
            with pytest.raises(lockwright.Closed):
                await waiting
            draining = asyncio.create_task(client.drain(20))
            await asyncio.sleep(0)
            await guard.release()
            assert await draining == []

    asyncio.run(main())


def free_after(lock: lockwright.Lock, began: float, least: float) -> None:
    assert lock.try_acquire() is None, "it is taken yet"
    with lock.acquire_guard(20):
        took = time.monotonic() - began
    assert least <= took < least + 5


def test_what_is_released_early_stays_taken_for_its_least_time(
    client: lockwright.Client, other: lockwright.Client
) -> None:
    began = time.monotonic()
    with client.lock("x", at_least_for="900ms"):
        pass
    free_after(other.lock("x"), began, 0.9)

    began = time.monotonic()
    guard = client.lock("x").acquire_guard(20)
    guard.hold_at_least_for(0.9)
    assert guard.is_held
    assert guard.release() == "released"
    free_after(other.lock("x"), began, 0.9)

    with pytest.raises(lockwright.NotOwned):
        guard.hold_at_least_for(1)
    with client.lock("y") as guard:
        for wrong in 86401, -1, "never":
            with pytest.raises(lockwright.InvalidConfig):
                guard.hold_at_least_for(wrong)
        guard.hold_at_least_for(0)
    with other.lock("y").acquire_guard(0):
        pass
    with pytest.raises(lockwright.InvalidConfig):
        client.lock("x", at_least_for=86401)
    with pytest.raises(lockwright.Unsupported, match="at_least_for"):
        client.semaphore("s", 2, at_least_for=1)


def test_tasks_hold_for_a_least_time(store_uri: str) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client, aio.connect(store_uri) as other:
            async with client.lock("x", at_least_for=60):
                pass
            guard = await client.lock("y").acquire_guard()
            guard.hold_at_least_for(60)
            await guard.release()
            assert await other.lock("x").try_acquire() is None and await other.lock("y").try_acquire() is None

    asyncio.run(main())


def test_several_locks_stay_taken_for_a_least_time(client: lockwright.Client, other: lockwright.Client) -> None:
    with client.multi_lock(["a", "b"], at_least_for=60):
        pass
    assert other.lock("a").try_acquire() is None and other.lock("b").try_acquire() is None


def test_a_lock_is_resumed_with_other_options(store_uri: str, client: lockwright.Client) -> None:
    secret = client.lock("x").acquire_guard().export(30)
    with lockwright.connect(store_uri) as there:
        guard = there.resume(secret, ttl="10m", label="mine", max_hold="2h")
        holder = client.inspect("x").holder
        assert holder is not None and holder.remaining > 300 and holder.label == "mine"
        with pytest.raises(TypeError, match="timeout"):
            there.resume(secret, timeout=3)
        secret = guard.export(30)

    async def main() -> None:
        async with aio.connect(store_uri) as there:
            guard = await there.resume(secret, ttl=timedelta_of(hours=1))
            assert guard.remaining() > 1800
            await guard.release()

    asyncio.run(main())


def timedelta_of(**span: int) -> Any:
    import datetime

    return datetime.timedelta(**span)


def test_who_loses_leadership_leads_again(client: lockwright.Client, other: lockwright.Client) -> None:
    reigns = []

    def work(guard: lockwright.Guard) -> int:
        reigns.append(guard.token)
        if len(reigns) == 1:
            assert other.break_lock("x", guard.token)
            # Whatever finds it lost says so.
            while True:
                guard.extend(30)
        if len(reigns) == 2:
            assert other.break_lock("x", guard.token)
            assert guard.lost.wait(20)
            return 0
        return guard.token

    election = client.election("x", ttl=2)
    assert election.run("me", work) == reigns[-1] and len(reigns) == 3
    assert election.leader() is None, "it resigned"


def test_what_the_work_raises_is_raised_once_it_resigned(client: lockwright.Client) -> None:
    election = client.election("x")

    def fails(guard: lockwright.Guard) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        election.run("me", fails)
    assert election.leader() is None

    def loses_another(guard: lockwright.Guard) -> None:
        raise lockwright.LockLost("of another lock")

    with pytest.raises(lockwright.LockLost, match="another"):
        election.run("me", loses_another)
    assert election.leader() is None
    with client.lock("x"), pytest.raises(lockwright.LockTimeout):
        client.election("x", timeout=0.05).run("me", fails)


def test_the_work_of_a_leader_that_is_no_more_is_cancelled_and_begun_again(store_uri: str) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client, aio.connect(store_uri) as operator:
            reigns, cancelled = [], []

            async def work(guard: aio.Guard) -> int:
                reigns.append(guard.token)
                if len(reigns) == 1:
                    assert await operator.break_lock("x", guard.token)
                    try:
                        await asyncio.Event().wait()
                    except asyncio.CancelledError:
                        cancelled.append(guard.why_lost)
                        raise
                return guard.token

            election = client.election("x", ttl=2)
            assert await election.run("me", work) == reigns[1] and len(reigns) == 2
            assert len(cancelled) == 1 and cancelled[0] is not None
            assert await election.leader() is None

            begun = asyncio.Event()

            async def works_on(guard: aio.Guard) -> None:
                begun.set()
                await asyncio.Event().wait()

            running = asyncio.create_task(election.run("me", works_on))
            await begun.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert await election.leader() is None

            async def fails(guard: aio.Guard) -> None:
                raise ValueError("mine")

            with pytest.raises(ValueError, match="mine"):
                await election.run("me", fails)
            assert await election.leader() is None

    asyncio.run(main())


def test_a_candidate_outlives_an_outage(monkeypatch: pytest.MonkeyPatch, client: lockwright.Client) -> None:
    monkeypatch.setattr("lockwright._election.EVERY", 0.001)
    election, outages = client.election("x"), iter(range(3))
    campaign = lockwright.Election.campaign

    def flaky(self: lockwright.Election, proclaims: str) -> lockwright.Guard:
        for _ in outages:
            raise lockwright.Unavailable("the store does not answer")
        return campaign(self, proclaims)

    monkeypatch.setattr(lockwright.Election, "campaign", flaky)
    assert election.run("me", lambda guard: "done") == "done"


@pytest.fixture
def four() -> Iterator[list[str]]:
    yield ["a", "b", "c", "d"]


def test_several_are_given_back_in_one_write(client: lockwright.Client, four: list[str]) -> None:
    held = client.multi_lock(four).acquire_guard()
    before = client.metrics().round_trips
    assert held.release() == "released"
    assert client.metrics().round_trips - before <= 1
    with client.multi_lock(four):
        before = client.metrics().round_trips
    assert client.metrics().round_trips - before <= 1
    assert all(client.inspect(name).holder is None for name in four)


def test_tasks_give_several_back_in_one_write(store_uri: str, four: list[str]) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            held = await client.multi_lock(four).acquire_guard()
            before = client.metrics().round_trips
            assert await held.release() == "released"
            assert client.metrics().round_trips - before <= 1
            async with client.multi_lock(four):
                before = client.metrics().round_trips
            assert client.metrics().round_trips - before <= 1
            assert [await client.inspect(name) for name in four if (await client.inspect(name)).holder] == []

    asyncio.run(main())


def test_one_that_cannot_be_given_back_keeps_no_other_from_it(client: lockwright.Client, four: list[str]) -> None:
    held = client.multi_lock(four).acquire_guard()
    for guard in held.guards[:2]:
        guard.release()
    with pytest.raises(lockwright.NotOwned) as error:
        held.release()
    assert error.value.lock == "a"
    notes = error.value.__notes__  # type: ignore[attr-defined]
    assert len(notes) == 1 and "NotOwned" in notes[0] and '"b"' in notes[0]
    assert all(client.inspect(name).holder is None for name in four)


def test_a_block_tells_of_each_lock_that_it_lost(
    client: lockwright.Client, other: lockwright.Client, four: list[str]
) -> None:
    with pytest.raises(lockwright.LockLost) as error:
        with client.multi_lock(four, ttl=2) as held:
            for name in ("b", "c"):
                assert other.break_lock(name, held.tokens[name])
            held.guards[3].release()
            for guard in held.guards[1:3]:
                assert guard.lost.wait(20)
    assert error.value.lock == "b"
    assert ['"c"' in note for note in error.value.__notes__] == [True]  # type: ignore[attr-defined]
    assert all(client.inspect(name).holder is None for name in four)
    with pytest.raises(ValueError, match="mine"), client.multi_lock(four) as held:
        assert other.break_lock("b", held.tokens["b"])
        raise ValueError("mine")


def test_tasks_hear_of_each_that_failed(store_uri: str, four: list[str]) -> None:
    async def main() -> None:
        async with aio.connect(store_uri) as client:
            held = await client.multi_lock(four).acquire_guard()
            await held.guards[0].release()
            await held.guards[3].release()
            with pytest.raises(lockwright.NotOwned) as error:
                await held.release()
            assert error.value.lock == "a"
            assert ['"d"' in note for note in error.value.__notes__] == [True]  # type: ignore[attr-defined]
            assert [(await client.inspect(name)).holder for name in four] == [None] * 4
            held = await client.multi_lock(four).acquire_guard()
            releasing = asyncio.create_task(held.release())
            await asyncio.sleep(0)
            if releasing.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await releasing
            async with client.multi_lock(four, timeout=20):
                pass

    asyncio.run(main())
