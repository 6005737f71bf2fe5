"""Checked by mypy --strict, never run: what a typed program sees."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Literal, Optional

import lockwright
from typing_extensions import assert_type


def credentials() -> tuple[str, str]:
    return "user", "password"


def program() -> None:
    with lockwright.connect("redis://localhost", prefix="app:", store_timeout=2, credentials=credentials) as client:
        lock = client.lock("orders:42", ttl=10)
        assert_type(lock, lockwright.Lock)
        with lock as guard:
            assert_type(guard, lockwright.Guard)
            assert_type(guard.token, int)
            assert_type(guard.why_lost, Optional[str])
            guard.on_lost(logging.getLogger().error)
            guard.extend(20)
        if lock.acquire(timeout=2):
            lock.release()
        assert_type(lock.try_acquire(), Optional[lockwright.Guard])
        outcome = lock.acquire_guard(timeout=1.5).release()
        assert_type(outcome, Literal["released", "kept", "expired", "stolen", "unknown"])
        assert_type(client.rlock("x"), lockwright.RLock)
        holder = client.inspect("x").holder
        if holder is not None:
            client.break_lock("x", holder.last_token)
        try:
            client.require(fenced=True, shared=True)
            client.require(rwlock=True, fair=True)
            assert_type(client.inspect("x").latch, Optional[lockwright.Counting])
            assert_type(client.ping().may_evict, bool)
            assert_type(client.drain("20s"), list[str])
            assert_type(client.resume("secret", ttl="10m", label="mine"), lockwright.Guard)
            assert_type(client.election("scheduler").run("me", lambda guard: guard.token), int)
        except lockwright.LockError as error:
            assert_type(error.code, str)
            assert_type(error.lock, Optional[str])


async def async_program() -> None:
    async with lockwright.aio.connect("redis://localhost", prefix="app:", credentials=credentials) as client:
        lock = client.lock("orders:42", ttl=10, cancel_on_loss=True)
        assert_type(lock, lockwright.aio.Lock)
        async with lock as guard:
            assert_type(guard, lockwright.aio.Guard)
            assert_type(guard.token, int)
            guard.on_lost(logging.getLogger().error)
            await guard.extend(20)
            assert_type(await guard.lost.wait(), bool)
        if await lock.acquire(timeout=2):
            await lock.release()
        assert_type(await lock.try_acquire(), Optional[lockwright.aio.Guard])
        outcome = await (await lock.acquire_guard(timeout=1.5)).release()
        assert_type(outcome, Literal["released", "kept", "expired", "stolen", "unknown"])
        assert_type(client.rlock("x"), lockwright.aio.RLock)
        async with client.rwlock("y").write() as writing:
            await writing.downgrade()
            assert_type(await writing.try_upgrade(), bool)
        pool = client.semaphore("pool", 5, take=2, fair=True)
        assert_type(pool, lockwright.aio.Semaphore)
        await pool.release(2)
        latch = client.latch("done", 3)
        assert_type(await latch.count_down(), int)
        assert_type(await latch.wait(), bool)
        assert_type(await client.barrier("step", 3).wait(5), Optional[lockwright.Arrival])
        assert_type(await client.list(), list[str])
        assert_type((await client.ping()).took, float)
        assert_type(await client.drain(20), list[str])
        guard = await client.resume("secret", ttl="10m")
        guard.hold_at_least_for("5m")
        assert_type(await client.election("scheduler").run("me", leads), int)
        holder = (await client.inspect("x")).holder
        if holder is not None:
            assert_type(await client.break_lock("x", holder.last_token), bool)
        assert_type(await async_report(2026), str)


async def leads(guard: lockwright.aio.Guard) -> int:
    return guard.token


@lockwright.aio.connect("memory://").lock("nightly-report").guarded
async def async_report(year: int) -> str:
    return f"{year}"


@lockwright.aio.connect("memory://").lock("nightly-report").guarded  # type: ignore[type-var]
def not_async() -> None: ...


client = lockwright.connect("memory://")

assert_type(client.rwlock("y").read(), lockwright.Lock)
assert_type(client.semaphore("pool", 5).acquire(timeout=None), bool)
assert_type(client.latch("done", 3, idle=3600).wait(timeout=2), bool)
assert_type(client.barrier("step", 3, ttl=5).wait(timeout=2), Optional[lockwright.Arrival])
client.semaphore("pool", "5")  # type: ignore[arg-type]


@client.lock("nightly-report").guarded
def report(year: int, *, draft: bool = False) -> str:
    return f"{year} {draft}"


assert_type(report(2026, draft=True), str)
report("2026")  # type: ignore[arg-type]
client.lock("x").acquire("now")  # type: ignore[arg-type]
client.lock("x", 10)  # type: ignore[call-arg]
client.lock("x", tll=10)  # type: ignore[call-arg]


async def lengths_of_time_and_keys(client: lockwright.Client, later: lockwright.aio.Client) -> None:
    client.lock("x", ttl="10s", timeout=timedelta(seconds=1), retry=("1ms", 0.1)).acquire(timeout="1m")
    later.lock("x", ttl="10s", timeout=timedelta(seconds=1), retry=("1ms", 0.1))

    @client.guarded("customer:{cid}", ttl="1m")
    def charge(cid: int) -> str:
        return str(cid)

    @later.guarded("customer:{cid}", ttl="1m")
    async def charge_later(cid: int) -> str:
        return str(cid)

    assert_type(charge(7), str)
    assert_type(await charge_later(7), str)
