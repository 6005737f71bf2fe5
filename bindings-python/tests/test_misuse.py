"""What is easily done wrong is told."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import warnings
from typing import Any, Callable

import lockwright
import lockwright.aio
import pytest


@pytest.mark.parametrize(
    "wait",
    [
        lambda client: client.lock("x").acquire(timeout=0.2),
        lambda client: client.rlock("x").acquire(timeout=0.2),
        lambda client: client.multi_lock(["x", "y"], timeout=0.2).acquire_guard(),
        lambda client: client.latch("l", 1).wait(0.2),
        lambda client: client.barrier("b", 2).wait(0.2),
    ],
    ids=["lock", "rlock", "multi_lock", "latch", "barrier"],
)
def test_a_wait_that_blocks_an_event_loop_is_warned_of(
    client: lockwright.Client, wait: Callable[[lockwright.Client], object]
) -> None:
    async def main() -> None:
        with pytest.warns(RuntimeWarning, match="use lockwright.aio") as warned:
            try:
                wait(client)
            except lockwright.LockTimeout:
                pass
        assert warned[0].filename == __file__

    with client.lock("x"):
        asyncio.run(main())


def test_what_does_not_wait_is_no_reason_to_warn(client: lockwright.Client) -> None:
    async def main() -> None:
        with client.lock("x"):
            assert client.lock("x").try_acquire() is None
            assert not client.lock("x").acquire(blocking=False)
        with client.multi_lock(["x", "y"]), client.rlock("z"):
            pass
        await asyncio.to_thread(client.lock("x").acquire, timeout=1)

    # To connect takes longer than an answer, and a call whose answer is late does wait.
    client.ping()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
        with client.lock("y"):
            assert not client.lock("y").acquire(timeout=0.05)


def test_a_warning_that_is_an_error_gives_the_place_up(client: lockwright.Client) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeWarning):
            client.lock("x").acquire()

    with client.lock("x"):
        asyncio.run(main())
    assert client.lock("x").acquire(timeout=20)


def test_a_guard_that_is_collected_is_logged(client: lockwright.Client, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.warns(ResourceWarning, match="collected without a release"):
        if client.lock("x").try_acquire():
            gc.collect()
    told = [record for record in caplog.records if "collected without a release" in record.getMessage()]
    assert len(told) == 1 and told[0].levelno == logging.WARNING
    assert "'x'" in told[0].getMessage() and "keep what try_acquire" in told[0].getMessage()


def test_a_guard_that_is_collected_is_told_where_nothing_is_set_up() -> None:
    program = "import lockwright\nif lockwright.connect('memory://').lock('x').try_acquire(): pass\n"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0 and "collected without a release" in ended.stderr


@pytest.mark.parametrize(
    "key, call, name",
    [
        ("customer:{cid}", lambda charge: charge(7), "customer:7"),
        ("customer:{cid}", lambda charge: charge(cid=7), "customer:7"),
        ("{region}/{cid:04}", lambda charge: charge(7), "eu/0007"),
        ("{region[0]}{cid.real}", lambda charge: charge(7, region="us"), "u7"),
        ("all {{of}} them", lambda charge: charge(7), "all {of} them"),
    ],
)
def test_a_key_of_a_calls_arguments(client: lockwright.Client, key: str, call: Callable[..., Any], name: str) -> None:
    @client.guarded(key, ttl=10)
    def charge(cid: int, region: str = "eu") -> "tuple[bool, bool]":
        """Charges."""
        return client.lock(name).locked(), client.lock("customer:8").locked()

    assert call(charge) == (True, False)
    assert not client.lock(name).locked()
    assert (charge.__name__, charge.__doc__) == ("charge", "Charges.")
    with pytest.raises(TypeError):
        charge()  # type: ignore[call-arg]


def test_a_key_of_a_coroutines_arguments(store_uri: str) -> None:
    async def main() -> None:
        async with lockwright.aio.connect(store_uri) as client:

            class Till:
                @client.guarded("customer:{cid}")
                async def charge(self, cid: int) -> bool:
                    return await client.lock(f"customer:{cid}").locked()

            assert await Till().charge(7)
            assert await Till().charge(cid=8)
            assert not await client.lock("customer:7").locked()

    asyncio.run(main())


@pytest.mark.parametrize("key", ["customer:{id}", "customer:{}", "customer:{0}", "customer:{id.x}", "customer:{cid", "customer:}"])
def test_a_key_that_cannot_be_is_refused_at_once(key: str) -> None:
    client, other = lockwright.connect("memory://keys"), lockwright.aio.connect("memory://keys")

    def charge(cid: int) -> None: ...

    async def charge_later(cid: int) -> None: ...

    with pytest.raises(lockwright.InvalidConfig, match="the key"):
        client.guarded(key)(charge)
    with pytest.raises(lockwright.InvalidConfig, match="the key"):
        other.guarded(key)(charge_later)


def test_what_a_key_cannot_guard() -> None:
    client, other = lockwright.connect("memory://keys"), lockwright.aio.connect("memory://keys")

    def charge(cid: int) -> None: ...

    async def charge_later(cid: int) -> None: ...

    with pytest.raises(TypeError, match="lockwright.aio"):
        client.guarded("{cid}")(charge_later)
    with pytest.raises(TypeError, match="lockwright.connect"):
        other.guarded("{cid}")(charge)  # type: ignore[type-var]
    with pytest.raises(lockwright.InvalidConfig, match="ttl"):
        client.guarded("{cid}", ttl=0)
    with pytest.raises(lockwright.InvalidConfig, match="ttl"):
        other.guarded("{cid}", ttl=0)


@pytest.mark.parametrize("method", ["lock", "rlock"])
def test_who_comes_from_redis_py_is_told_what_its_options_are_called(method: str) -> None:
    sync = lockwright.connect("memory://")
    for client in sync, lockwright.aio.connect("memory://"):
        for option, hint in ("blocking_timeout", "here timeout says"), ("sleep", "here retry says"), ("label_", "argument 'label_'"):
            with pytest.raises(TypeError, match=hint):
                getattr(client, method)("x", **{option: 5})
