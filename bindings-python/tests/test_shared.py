"""Read/write locks and semaphores: what `threading` and asyncio have, and what they have not."""

import asyncio
import threading

import pytest

import lockwright
import lockwright.aio


name = "x"


def test_readers_share_and_a_writer_is_alone(client):
    lock = client.rwlock(name)
    assert lock.name == name and name in repr(lock)
    with lock.read() as one, lock.read() as other:
        assert one.token < other.token
        assert lock.read().locked()
        assert not lock.write().acquire(blocking=False)
    with lock.write():
        assert lock.read().try_acquire() is None
        assert not lock.write().acquire(timeout=0.02)
    assert not lock.write().locked()


def test_a_guard_is_downgraded_and_upgraded(client):
    lock = client.rwlock(name)
    guard = lock.write().acquire_guard()
    token = guard.token
    guard.downgrade()
    assert guard.token == token
    with lock.read():
        assert guard.try_upgrade() is False
    assert guard.try_upgrade() is True
    assert guard.token > token and str(guard.token) in repr(guard)
    assert lock.read().try_acquire() is None
    assert guard.release() == "released"
    with pytest.raises(lockwright.NotOwned):
        guard.downgrade()
    with client.lock(name + " lock") as plain, pytest.raises(lockwright.Unsupported):
        plain.try_upgrade()


def test_it_behaves_as_a_bounded_semaphore(client):
    ours, theirs = client.semaphore(name, 2), threading.BoundedSemaphore(2)
    for semaphore in (ours, theirs):
        assert semaphore.acquire()
        with semaphore:
            assert not semaphore.acquire(blocking=False)
            assert not semaphore.acquire(timeout=0.01)
            assert not semaphore.acquire(True, 0.01)
        assert semaphore.acquire(blocking=False)
        semaphore.release(2)
        with pytest.raises(ValueError):
            semaphore.release()
        with pytest.raises(ValueError):
            semaphore.release(0)
        # Another thread may release.
        semaphore.acquire()
        thread = threading.Thread(target=semaphore.release)
        thread.start()
        thread.join()
        assert semaphore.acquire() and semaphore.acquire(blocking=False)
        semaphore.release(n=2)
    ours.acquire()
    with pytest.raises(lockwright.OverReleased) as raised:
        ours.release(2)
    assert raised.value.code == "not_owned" and raised.value.lock == name
    ours.release()


def test_several_permits_are_taken_and_a_semaphore_is_resized(client):
    pair = client.semaphore(name, 3, take=2)
    with pair, client.semaphore(name, 3):
        assert pair.locked() and pair.take == 2
        seen = client.inspect(name)
        assert seen.shared.primitive == "semaphore" and seen.shared.permits == 3
        assert [part.holds for part in seen.shared.holders] == ["2", "1"]
        assert seen.holder == seen.shared.holders[0].holder
        pair.resize(5)
        assert not pair.locked()
        pair.resize(1)
        with pytest.raises(lockwright.InvalidConfig, match="1 permits"):
            pair.acquire()
    for permits, take in [(0, 1), (-1, 1), (2, 3), (2**40, 1), (2, 0)]:
        with pytest.raises(lockwright.InvalidConfig):
            client.semaphore(name, permits, take=take)
    with pytest.raises(TypeError):
        client.semaphore(name, "2")
    with pytest.raises(lockwright.InvalidConfig):
        pair.resize(0)


def test_a_name_is_one_thing(client):
    # What is broken in the end is lost to its block.
    with pytest.raises(lockwright.LockLost), client.rwlock(name).read():
        with pytest.raises(lockwright.ForeignLayout):
            client.lock(name).acquire()
        with pytest.raises(lockwright.ForeignLayout):
            client.semaphore(name, 2).acquire()
        shared = client.inspect(name).shared
        assert shared.primitive == "rwlock" and [part.holds for part in shared.holders] == ["read"]
        assert client.break_lock(name, shared.holders[0].holder.first_token)


def test_asyncio_has_the_same(store_uri, run):
    async def main():
        async with lockwright.aio.connect(store_uri) as client:
            lock = client.rwlock(name)
            async with lock.read() as guard, lock.read():
                assert name in repr(lock) and lock.name == name
                assert not await guard.try_upgrade()
                assert await lock.write().try_acquire() is None
            guard = await lock.write().acquire_guard()
            token = guard.token
            await guard.downgrade()
            assert await guard.try_upgrade() and guard.token > token
            await guard.release()

            semaphore = client.semaphore(name + " s", 2)
            held = 0

            async def work():
                nonlocal held
                async with semaphore:
                    held += 1
                    assert held <= 2
                    await asyncio.sleep(0)
                    held -= 1

            await asyncio.gather(*(work() for _ in range(10)))
            assert not await semaphore.locked()
            assert await semaphore.acquire() and await semaphore.acquire()
            assert await semaphore.locked() and not await semaphore.acquire(blocking=False)
            with pytest.raises(ValueError):
                await semaphore.release(3)
            await semaphore.release(2)
            with pytest.raises(lockwright.OverReleased):
                await semaphore.release()
            await semaphore.resize(1)
            async with semaphore:
                assert await semaphore.try_acquire() is None

    run(main())
