"""What is made of locks, and what is waited for, in the component beside the native Python face."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import lockwright
import pytest
from component import Failed
from conftest import Connect
from test_component import until, waits


def test_readers_share_and_a_writer_is_alone(connect: Connect, native: lockwright.Client) -> None:
    catalog = connect().rwlock("catalog")
    reads = catalog.read().acquire()
    with native.rwlock("catalog").read():
        assert native.rwlock("catalog").write().try_acquire() is None
        assert not reads.try_upgrade(), "somebody else reads"
    assert reads.try_upgrade()
    writing = reads.token
    assert native.rwlock("catalog").read().try_acquire() is None
    reads.downgrade()
    assert reads.token == writing
    assert native.rwlock("catalog").read().try_acquire().release() == "released"
    assert reads.release() == "released"
    assert catalog.write().acquire().token > writing
    with pytest.raises(Failed) as refused:
        connect().lock("catalog").acquire(1_000)
    assert refused.value.case == "foreign-layout"
    guard = connect().lock("x").acquire()
    with pytest.raises(Failed) as refused:
        guard.downgrade()
    assert refused.value.case == "unsupported"


def test_a_writer_is_handed_the_lock_by_native_readers(connect: Connect, native: lockwright.Client) -> None:
    catalog = connect().rwlock("catalog")
    reader = native.rwlock("catalog").read().acquire_guard()
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(catalog.write().acquire, 20_000)
        until(lambda: waits(native, "catalog"))
        assert native.rwlock("catalog").read().try_acquire() is None, "it came after the writer"
        reader.release()
        released = time.monotonic()
        guard = writing.result(timeout=10)
        assert time.monotonic() - released < 0.5, "it polls"
    assert guard.remaining > 25_000, "the claim was renewed"
    guard.release()


def test_permits_are_counted_over_all(connect: Connect, native: lockwright.Client) -> None:
    instance = connect()
    guards = [instance.semaphore("reports", 3).permits().acquire() for _ in range(2)]
    assert len({guard.token for guard in guards}) == 2
    assert instance.semaphore("reports", 3, take=2).permits().try_acquire() is None
    other = native.semaphore("reports", 3).try_acquire()
    assert instance.semaphore("reports", 3).permits().try_acquire() is None
    instance.semaphore("reports", 3).resize(4)
    guards.append(instance.semaphore("reports", 3).permits().acquire(5_000))
    assert native.inspect("reports").shared.permits == 4
    with pytest.raises(Failed) as refused:
        instance.semaphore("reports", 3, take=4)
    assert refused.value.case == "invalid-config" and "take is 4" in str(refused.value)
    other.release()
    assert [guard.release() for guard in guards] == ["released"] * 3


def test_a_latch_opens_for_all(connect: Connect, native: lockwright.Client) -> None:
    instance = connect()
    latch = instance.latch("import", 3)
    assert latch.count() == 3 and not latch.wait(0)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(connect().latch("import", 3).wait, 20_000)
        until(lambda: waits(native, "import"))
        assert latch.count_down() == 2
        assert native.latch("import", 3).count_down() == 1
        assert not latch.try_set_count(5), "it counts"
        assert latch.count_down() == 0
        opened = time.monotonic()
        assert waiting.result(timeout=10)
        assert time.monotonic() - opened < 0.5, "it polls"
    assert latch.wait() and native.latch("import", 3).wait(0)
    assert latch.try_set_count(2) and latch.count() == 2
    for count, idle in ((0, None), (1, 10)):
        with pytest.raises(Failed) as refused:
            instance.latch("x", count, idle)
        assert refused.value.case == "invalid-config"


def test_a_barrier_opens_for_its_parties_at_once(connect: Connect, native: lockwright.Client) -> None:
    barrier = connect().barrier("step", 2)
    assert barrier.waiting() == 0 and barrier.wait(30) is None
    generations = []
    with ThreadPoolExecutor() as pool:
        for _ in range(3):
            theirs = pool.submit(native.barrier("step", 2).wait, 20)
            ours, theirs = barrier.wait(20_000), theirs.result(timeout=10)
            assert sorted([ours.index, theirs.index]) == [0, 1]
            assert ours.generation == theirs.generation
            generations.append(ours.generation)
        assert generations == list(range(generations[0], generations[0] + 3))
        waiting = pool.submit(native.barrier("step", 2).wait, 20)
        until(lambda: connect().barrier("step", 2).waiting() == 1)
        with pytest.raises(Failed) as refused:
            connect().barrier("step", 3).wait(5_000)
        assert refused.value.case == "invalid-config"
        assert barrier.wait(5_000) is not None and waiting.result(timeout=10) is not None


def test_one_leads_and_all_see_who(connect: Connect, native: lockwright.Client) -> None:
    election = connect().election("scheduler", ttl=10_000)
    assert election.leader() is None
    leading = election.campaign("edge:1")
    leader = native.election("scheduler").leader()
    assert (leader.proclaims, leader.language, leader.token) == ("edge:1", "wasm", leading.token)
    assert (election.leader().proclaims, election.leader().token) == ("edge:1", leading.token)
    assert election.changed(None).token == leading.token
    with ThreadPoolExecutor() as pool:
        theirs = pool.submit(native.election("scheduler").campaign, "python:1")
        until(lambda: waits(native, "scheduler"))
        leading.release()
        other = theirs.result(timeout=10)
        seen = connect().election("scheduler").changed(leading.token, 20)
        assert (seen.proclaims, seen.token) == ("python:1", other.token)
        with pytest.raises(Failed) as refused:
            election.campaign("edge:2", 50)
        assert refused.value.case == "timeout"
        other.release()
    for every in (0, 86_400_001):
        with pytest.raises(Failed) as refused:
            election.changed(1, every)
        assert refused.value.case == "invalid-config"


def test_several_are_held_or_none(connect: Connect, native: lockwright.Client) -> None:
    transfer = connect().multi_lock(["account:7", "account:3", "account:7"])
    assert transfer.names() == ["account:3", "account:7"]
    with native.lock("account:7"):
        assert transfer.try_acquire() is None
        with pytest.raises(Failed) as refused:
            transfer.acquire(60)
        assert refused.value.case == "timeout"
        assert native.inspect("account:3").holder is None, "it was given back"
    held = native.lock("account:9").acquire_guard()
    several = connect().multi_lock(["account:9", "account:1"])
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(several.acquire, 20_000)
        until(lambda: waits(native, "account:9"))
        assert native.lock("account:1").try_acquire() is None, "it is kept meanwhile"
        held.release()
        guard = waiting.result(timeout=10)
    assert list(guard.tokens) == ["account:1", "account:9"] and guard.remaining > 25_000 and guard.lost is None
    guard.renew(60_000)
    assert guard.remaining > 55_000
    assert guard.release() == "released"
    assert native.inspect("account:1").holder is None and native.inspect("account:9").holder is None
    with pytest.raises(Failed) as refused:
        guard.release()
    assert refused.value.case == "not-owned"
    with pytest.raises(Failed) as refused:
        connect().multi_lock([])
    assert refused.value.case == "invalid-config"


def test_a_job_is_one_callers(connect: Connect) -> None:
    job = connect().once("cache:page")
    assert job.claim("fresh") is None
    guard = job.claim("missing")
    assert guard.token > 0
    others = connect().once("cache:page")
    assert others.claim("stale") is None, "somebody is at it, and the stale value does"
    with pytest.raises(Failed) as refused:
        connect().once("cache:page", waits=True).claim("stale", 50)
    assert refused.value.case == "timeout"
    guard.release()
    assert others.claim("stale").release() == "released"


def test_what_another_library_keeps_has_them_or_says_not(connect: Connect) -> None:
    instance = connect()
    assert instance.rwlock("r", layout="redisson").read().acquire().release() == "released"
    assert instance.semaphore("s", 2, layout="redisson").permits().acquire().release() == "released"
    with pytest.raises(Failed) as refused:
        instance.rwlock("r", layout="string", format="redis-py")
    assert refused.value.case == "unsupported"


def test_an_operator_sees_what_lies_there_and_takes_it(connect: Connect, native: lockwright.Client) -> None:
    instance = connect()
    health = instance.ping()
    assert 0 < health.took < 5_000_000 and getattr(health, "may-evict") == native.ping().may_evict
    free = instance.inspect("x")
    assert (free.layout, free.holder, free.waiters, free.primitive, free.shared, free.count) == ("native", None, 0, None, None, None)
    guard = native.lock("x", label="night job").acquire_guard()
    seen, of_python = instance.inspect("x"), native.inspect("x").holder
    assert (seen.name, seen.primitive, seen.shared) == ("x", "lock", None)
    assert (seen.holder.owner, seen.holder.host, seen.holder.pid) == (of_python.owner, of_python.host, os.getpid())
    assert (seen.holder.language, seen.holder.label) == ("python", "night job")
    assert 29_000 < seen.holder.remaining <= 30_000 and getattr(seen.holder, "held-for") < 10_000
    assert getattr(seen.holder, "first-token") == guard.token <= getattr(seen.holder, "last-token")
    reader = native.rwlock("file").read().acquire_guard()
    native.latch("import", 3).count_down()
    with ThreadPoolExecutor() as pool:
        writer = pool.submit(native.rwlock("file", label="editor").write().acquire, timeout=0.3)
        until(lambda: waits(native, "file"))
        [waiting] = instance.inspect("file").queue
        assert (waiting.language, waiting.label, waiting.wants, waiting.pid) == ("python", "editor", "write", os.getpid())
        assert not writer.result(timeout=10)
    shared = instance.inspect("file").shared
    assert (shared.primitive, [part.holds for part in shared.holders], shared.unlisted) == ("rwlock", ["read"], 0)
    assert instance.inspect("import").count == 2
    assert instance.list() == native.list() == ["file", "import", "lockwright-ping", "x"]
    for name, held in (("x", guard), ("file", reader)):
        assert not instance.break_lock(name, held.token + 1_000) and held.is_held
        assert instance.break_lock(name, held.token)
        assert native.inspect(name).holder is None
        assert held.release() == "expired"
    with pytest.raises(Failed) as refused:
        instance.inspect("")
    assert refused.value.case == "invalid-config"
