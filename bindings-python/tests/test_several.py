"""Locks that move, that are held together, and that are cut into segments."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import sqlite3
import threading

import pytest

import lockwright
from lockwright import aio, kit

_numbers = itertools.count()


@pytest.fixture(params=["memory", "sqlite", "redis"])
def url(request, tmp_path):
    if request.param == "memory":
        return f"memory://several-{os.getpid()}-{next(_numbers)}"
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/locks.db"
    return os.environ["LOCKWRIGHT_TEST_REDIS"]


@pytest.fixture
def name():
    return f"several-{os.getpid()}-{next(_numbers)}"


def test_a_lock_is_exported_and_resumed(url, name):
    with lockwright.connect(url) as a, lockwright.connect(url) as b:
        with a.lock(name) as guard:
            secret = guard.export(30)
            assert not guard.is_held and guard.why_lost is None
            with pytest.raises(lockwright.NotOwned, match="this guard was exported"):
                guard.export(30)
        assert secret.isascii() and " " not in secret
        assert b.lock(name).try_acquire() is None
        resumed = b.resume(secret)
        assert resumed.token > guard.token and resumed.name == name
        with pytest.raises(lockwright.NotOwned) as failed:
            a.resume(secret)
        assert failed.value.lock == name and secret not in str(failed.value)
        again = b.lock(name, ttl=5).resume(resumed.export(30))
        assert again.release() == "released"


async def _codes(*asked):
    """How each ended that was asked in the same moment."""
    ended = await asyncio.gather(*asked, return_exceptions=True)
    return [one.code if isinstance(one, lockwright.LockError) else one for one in ended]


def test_a_release_wins_over_an_export_under_way(url, name):
    async def main():
        async with aio.connect(url) as client:
            lock = client.lock(name)
            guard = await lock.acquire_guard()
            ends = await _codes(guard.export(30), guard.release(), guard.release())
            # A store in this process may have done the first before the second was asked.
            if ends != ["not_owned", "released", "not_owned"]:
                assert ends[1:] == ["not_owned", "not_owned"] and not url.startswith("redis")
                await (await client.resume(ends[0])).release()
            assert await (await lock.acquire_guard(timeout=0)).release() == "released"
            guard = await lock.acquire_guard()
            secret, *refused = await _codes(guard.export(30), guard.export(30), guard.extend(30))
            assert not guard.is_held and set(refused) <= {"unavailable", "not_owned"}
            assert await (await client.resume(secret)).release() == "released"
            both = client.rwlock(name + "-both")
            writer = await both.write().acquire_guard()
            changed, released = await _codes(writer.downgrade(), writer.release())
            assert changed in (None, "lost") and (changed or not url.startswith("redis")) and released == "released"

    asyncio.run(main())


def test_what_cannot_be_exported_is_still_held(url, name):
    with lockwright.connect(url) as client:
        lock = client.rlock(name)
        with lock as outer, lock:
            with pytest.raises(lockwright.Unsupported):
                outer.export(30)
            with pytest.raises(lockwright.InvalidConfig):
                outer.export(-1)
            assert outer.is_held
            outer.extend(60)
        for wrong in ("", "lwx1.", "\udcff"):
            with pytest.raises(lockwright.InvalidConfig):
                client.resume(wrong)


def test_whoever_waits_for_a_loss_hears_that_there_will_be_none(url, name):
    with lockwright.connect(url) as client:
        guard = client.lock(name).acquire_guard()
        heard = []
        waiting = threading.Thread(target=lambda: heard.append(guard.lost.wait()))
        waiting.start()
        secret = guard.export(30)
        waiting.join()
        assert heard == [False]
        client.resume(secret).release()


def test_several_locks_are_held_together(url, name):
    names = [f"{name}-{letter}" for letter in "cab"]
    with lockwright.connect(url) as a, lockwright.connect(url) as b:
        both = a.multi_lock(iter(names), ttl=20)
        assert both.names == sorted(names)
        with both as held:
            assert held.is_held and held.remaining() > 5 and held.why_lost is None
            assert set(held.tokens) == set(names)
            assert b.lock(names[0]).try_acquire() is None
            assert b.multi_lock(names).try_acquire() is None
            with pytest.raises(lockwright.LockTimeout):
                b.multi_lock(names, timeout=0.05).acquire_guard()
            held.extend(30)
        held = b.multi_lock(names).acquire_guard()
        told = threading.Event()
        held.on_lost(lambda why: told.set())
        assert a.break_lock(names[1], held.tokens[names[1]])
        assert told.wait(20)
        assert not held.is_held and held.why_lost[0] == names[1]
        assert held.release() != "released"
        with pytest.raises(lockwright.InvalidConfig):
            a.multi_lock([])


def test_segments_are_taken_and_sold_out(url, name):
    with lockwright.connect(url) as client:
        sale = client.striped(name, 4)
        assert sale.count == 4 and sale.for_key("user:42").name == f"{name}#{sale.index_for('user:42')}"
        segments = [sale.any() for _ in range(4)]
        assert {segment.index for segment in segments} == {0, 1, 2, 3}
        with pytest.raises(lockwright.LockTimeout):
            sale.any(timeout=0)
        for segment in segments:
            assert segment.sold_out() == "released"
        assert sale.any() is None
        sale.restock()
        with sale.any() as segment:
            assert segment.token == segment.guard.token


def test_segments_lie_with_several_stores(url, name, tmp_path):
    elsewhere = f"sqlite://{tmp_path / 'elsewhere.db'}"
    with lockwright.connect(url) as home, lockwright.connect(elsewhere) as other:
        sale = home.striped(name, 4).across(other)
        held = [sale.any() for _ in range(4)]
        for client, indices in ((home, (0, 2)), (other, (1, 3))):
            taken = [index for index in range(4) if client.inspect(f"{name}#{index}").holder]
            assert taken == list(indices)
        guard = next(segment.guard for segment in held if segment.index == 1)
        with other.resume(guard.export(30)) as resumed:
            assert resumed.is_held
        with sale.any() as segment:
            assert segment.index == 1
        for segment in held:
            if segment.index != 1:
                assert segment.release() == "released"
        with pytest.raises(lockwright.InvalidConfig, match="4 segments cannot be at 5 stores"):
            sale.across(other, other, other)
        with pytest.raises(TypeError):
            home.striped(name, 4).across(url)

    async def main():
        async with aio.connect(url) as home, aio.connect(elsewhere) as other:
            sale = home.striped(f"{name}-tasks", 2).across(other)
            held = [await sale.any() for _ in range(2)]
            assert (await other.inspect(f"{name}-tasks#1")).holder
            held.sort(key=lambda segment: segment.index)
            secret = await held[1].guard.export(30)
            assert await (await other.resume(secret)).release() == "released"
            assert await held[0].release() == "released"

    asyncio.run(main())


def test_tasks_do_the_same(url, name):
    async def main():
        async with aio.connect(url) as client:
            guard = await client.lock(name).acquire_guard()
            secret = await guard.export(30)
            assert not guard.is_held
            resumed = await client.resume(secret)
            assert resumed.token > guard.token
            with pytest.raises(lockwright.NotOwned):
                await client.resume(secret)
            await resumed.release()
            names = [f"{name}-{letter}" for letter in "ab"]
            async with client.multi_lock(names) as held:
                assert held.is_held and len(held.tokens) == 2
                assert await client.multi_lock(names).try_acquire() is None
                await held.extend(30)
            held = await client.multi_lock(names).acquire_guard()
            assert await held.release() == "released"
            sale = client.striped(name, 2)
            async with await sale.any() as one, await sale.any() as other:
                assert {one.index, other.index} == {0, 1}
                with pytest.raises(lockwright.LockTimeout):
                    await sale.any(timeout=0)
            assert await (await sale.any()).sold_out() == "released"
            assert await (await sale.any()).sold_out() == "released"
            assert await sale.any() is None

    asyncio.run(main())


def test_what_a_cancelled_task_asked_for_is_given_back(url, name):
    async def main():
        async with aio.connect(url) as client:
            for steps in range(4):
                guard = await client.lock(name).acquire_guard()
                tasks = [
                    asyncio.create_task(guard.export(3600)),
                    asyncio.create_task(client.multi_lock([f"{name}-a", f"{name}-b"]).acquire_guard()),
                    asyncio.create_task(client.striped(name, 2).any()),
                ]
                for _ in range(steps):
                    await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
                done = await asyncio.gather(*tasks, return_exceptions=True)
                if isinstance(done[0], str):
                    await (await client.resume(done[0])).release()
                for held in done[1:]:
                    if not isinstance(held, BaseException):
                        await held.release()
                if guard.is_held:
                    await guard.release()
                for lock in (name, f"{name}-a", f"{name}-b", f"{name}#0", f"{name}#1"):
                    await (await client.lock(lock, timeout=20).acquire_guard()).release()
                del guard, tasks, done, held
                gc.collect()

    asyncio.run(main())


def test_one_caller_does_the_job(url, name):
    made = []

    def make(token):
        made.append(token)
        return "new"

    with lockwright.connect(url) as a, lockwright.connect(url) as b:
        job = a.once(name, lambda: ("new", True) if made else None, make, ttl=20)
        threads = [threading.Thread(target=job.get) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 1
        stale = a.once(name, lambda: ("old", False), lambda token: "newer")
        with b.lock(name):
            assert stale.get() == "old"
            with pytest.raises(lockwright.LockTimeout):
                a.once(name, lambda: ("old", False), make, waits=True, timeout=0.02).get()
        assert stale.get() == "newer"


def test_one_of_many_leads(url, name):
    with lockwright.connect(url) as a, lockwright.connect(url) as b:
        election = a.election(name, ttl=20)
        assert election.leader() is None
        guard = election.campaign("here")
        seen = b.election(name).changed(every=0.01)
        assert (seen.proclaims, seen.token, seen.pid) == ("here", guard.token, os.getpid())
        with pytest.raises(lockwright.LockTimeout):
            b.election(name).campaign("there", timeout=0)
        guard.release()
        assert b.election(name).changed(seen.token, every=0.01) is None


def test_a_block_of_several_locks_ends_what_it_took(url, name):
    with lockwright.connect(url) as client:
        both = client.multi_lock([f"{name}-1", f"{name}-2"], ttl=20)
        entered, left = threading.Event(), threading.Event()
        held = []

        def other():
            with both as guard:
                entered.set()
                left.wait(10)
                held.append(guard.is_held)

        with both as guard:
            guard.release()
            thread = threading.Thread(target=other)
            thread.start()
            assert entered.wait(10)
        left.set()
        thread.join()
        assert held == [True]


def test_a_task_ends_its_own_block_of_several_locks(url, name):
    async def main():
        async with aio.connect(url) as client:
            both = client.multi_lock([f"{name}-1", f"{name}-2"], ttl=20)
            entered, left = asyncio.Event(), asyncio.Event()

            async def other():
                async with both as guard:
                    entered.set()
                    await left.wait()
                    return guard.is_held

            async with both as guard:
                await guard.release()
                task = asyncio.create_task(other())
                await asyncio.wait_for(entered.wait(), 10)
            left.set()
            assert await task

    asyncio.run(main())


def test_a_block_ends_wherever_it_is_left(url, name):
    async def main():
        async with aio.connect(url) as client:
            lock, both = client.lock(name, ttl=20), client.multi_lock([f"{name}-1", f"{name}-2"], ttl=20)

            async def holding(what):
                async with what:
                    yield

            for what in (lock, both, client.rlock(f"{name}-r", ttl=20)):
                generator = holding(what)
                await generator.asend(None)
                # As asyncio closes what a loop left: in another task.
                await asyncio.create_task(generator.aclose())
                async with what:
                    pass

    asyncio.run(main())
    with lockwright.connect(url) as client:
        lock, semaphore = client.lock(name, ttl=20), client.semaphore(f"{name}-s", 1, ttl=20)
        for what in (lock, semaphore):
            what.__enter__()
            thread = threading.Thread(target=what.__exit__, args=(None, None, None))
            thread.start()
            thread.join()
            assert what.acquire(timeout=5)
            what.release()


@pytest.mark.parametrize("turns", range(1, 4))
def test_a_release_of_permits_and_a_close_go_on_though_they_are_cancelled(url, name, turns):
    async def cancelled(work):
        task = asyncio.create_task(work)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def main():
        client = aio.connect(url)
        semaphore = client.semaphore(name, 2, ttl=20)
        assert await semaphore.acquire() and await semaphore.acquire()
        await cancelled(semaphore.release(2))
        assert await semaphore.acquire(timeout=5)
        await cancelled(client.close())
        with pytest.raises(lockwright.Closed):
            await semaphore.acquire()

    asyncio.run(main())


@pytest.mark.parametrize("names", ["10", 5, None])
def test_what_is_no_list_of_names_is_refused(url, names):
    with lockwright.connect(url) as client, pytest.raises(lockwright.InvalidConfig, match="list of strings"):
        client.multi_lock(names)


@pytest.mark.parametrize("every", [0, -1, float("nan"), float("inf")])
def test_what_is_no_time_between_two_looks_is_refused(url, name, every):
    async def asked():
        async with aio.connect(url) as client:
            await client.election(name).changed(1, every=every)

    with lockwright.connect(url) as client, pytest.raises(lockwright.InvalidConfig, match="every is"):
        client.election(name).changed(1, every=every)
    with pytest.raises(lockwright.InvalidConfig, match="every is"):
        asyncio.run(asked())


def test_a_leader_that_lost_its_office_campaigns_again_whatever_its_work_makes_of_that(url, name):
    async def main():
        async with aio.connect(url) as client:
            reigns = []

            async def work(guard):
                reigns.append(guard.token)
                if len(reigns) == 3:
                    return "done"
                assert await client.break_lock(name, guard.token)
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    if len(reigns) == 1:
                        raise ConnectionError("it was cut off") from None
                return "too late"

            assert await client.election(name, ttl=20).run("here", work) == "done"
            assert reigns == sorted(set(reigns))

    asyncio.run(main())


def test_a_leader_that_is_cancelled_resigns_when_its_work_has_ended(url, name):
    async def main():
        async with aio.connect(url) as client:
            leads, held = asyncio.Event(), []

            async def work(guard):
                leads.set()
                try:
                    await asyncio.sleep(30)
                finally:
                    for _ in range(3):
                        try:
                            await asyncio.sleep(0.02)
                        except asyncio.CancelledError:
                            pass
                    held.append(guard.is_held)
                    raise ConnectionError("it cannot end well")

            running = asyncio.create_task(client.election(name, ttl=20).run("here", work))
            await asyncio.wait_for(leads.wait(), 10)
            for _ in range(3):
                running.cancel()
                await asyncio.sleep(0)
            with pytest.raises(ConnectionError):
                await running
            assert held == [True]
            assert await client.election(name).leader() is None

    asyncio.run(main())


def test_a_loss_of_several_that_is_told_at_once_is_told_once(url, name):
    async def main():
        client, told, wrong = aio.connect(url), [], []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
        for number in range(10):
            guard = await client.multi_lock([f"{name}-{part}" for part in range(3)], ttl=20).acquire_guard()
            guard.on_lost(lambda why: told.append(why))
            await client.close()
            await asyncio.sleep(0.02)
            assert (told, wrong) == (["closed"] * (number + 1), [])
            client = aio.connect(url)
        await client.close()

    asyncio.run(main())


def test_a_task_does_the_job_and_leads(url, name):
    made = []

    async def look():
        return ("new", True) if made else None

    async def make(token):
        await asyncio.sleep(0.01)
        made.append(token)
        return "new"

    async def main():
        async with aio.connect(url) as client:
            job = client.once(name, look, make, ttl=20)
            assert set(await asyncio.gather(*(job.get() for _ in range(50)))) == {"new"}
            assert len(made) == 1
            election = client.election(f"{name}-e")
            guard = await election.campaign("here")
            assert (await election.changed(every=0.01)).token == guard.token
            await guard.release()
            assert await election.changed(guard.token, every=0.01) is None

    asyncio.run(main())


def test_the_kit_refuses_who_comes_late():
    fence = kit.Fence()
    fence.admit(5)
    fence.admit(5)
    with pytest.raises(kit.Stale):
        fence.admit(4)
    fence.admit(1, epoch=1)
    assert kit.read_header(kit.header_value(42)) == (0, 42) and kit.read_header("no") is None
    assert kit.HEADER == "If-Fence" and "KEYS[2]" in kit.SET_SCRIPT
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE t (value, fence INTEGER)")
    db.execute("INSERT INTO t VALUES (0, NULL)")
    assert kit.key_range('orders:42') == ('orders:42/', 'orders:420')
    assert kit.advisory_key('zürich') == -8876762214372858569
    update = f"UPDATE t SET value = ?1, fence = ?2 WHERE {kit.sql_condition('fence', '?2')}"
    assert [db.execute(update, (value, token)).rowcount for value, token in [(1, 7), (2, 7), (3, 6)]] == [1, 1, 0]
