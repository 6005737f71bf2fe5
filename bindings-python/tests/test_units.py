"""Lengths of time are numbers of seconds, texts with a unit, or timedeltas; an error names what is wrong."""

from __future__ import annotations

import asyncio
import warnings
from datetime import timedelta
from typing import Any, Callable

import lockwright
import lockwright.aio
import pytest

MINUTES: list[Any] = [120, 120.0, "120", "120s", "2m", "120000ms", timedelta(minutes=2)]


@pytest.mark.parametrize("ttl", MINUTES, ids=repr)
def test_a_ttl_in_every_way(client: lockwright.Client, ttl: Any) -> None:
    with client.lock("x", ttl=ttl) as guard:
        assert 60 < guard.remaining() <= 120
        guard.extend(ttl)
        assert 60 < guard.remaining() <= 120


@pytest.mark.parametrize("limit", [0.05, "50ms", timedelta(milliseconds=50)], ids=repr)
def test_a_limit_in_every_way(client: lockwright.Client, limit: Any) -> None:
    with client.lock("x"):
        lock = client.lock("x", timeout=limit, retry=(limit, limit), max_hold="1h")
        assert not lock.acquire()
        assert not client.lock("x").acquire(timeout=limit)
    assert not client.latch("l", 1, idle="1h").wait(limit)
    lockwright.connect("memory://", connect_timeout=limit, response_timeout=limit, store_timeout="1s").close()


def test_the_same_in_an_event_loop(store_uri: str) -> None:
    async def main() -> None:
        async with lockwright.aio.connect(store_uri, store_timeout="5s") as client:
            async with client.lock("x", ttl=timedelta(minutes=1)):
                assert not await client.lock("x").acquire(timeout="50ms")

    asyncio.run(main())


@pytest.mark.parametrize(
    "name, call",
    [
        ("ttl", lambda client, wrong: client.lock("x", ttl=wrong)),
        ("timeout", lambda client, wrong: client.lock("x", timeout=wrong)),
        ("max_hold", lambda client, wrong: client.lock("x", max_hold=wrong)),
        ("retry", lambda client, wrong: client.lock("x", retry=(wrong, wrong))),
        ("timeout", lambda client, wrong: client.lock("x").acquire(timeout=wrong)),
        ("idle", lambda client, wrong: client.latch("x", 1, idle=wrong)),
        ("ttl", lambda client, wrong: client.barrier("x", 2, ttl=wrong)),
        ("store_timeout", lambda client, wrong: lockwright.connect("memory://", store_timeout=wrong)),
    ],
)
def test_an_error_names_the_option(name: str, call: Callable[[lockwright.Client, Any], object]) -> None:
    client = lockwright.connect("memory://units")
    for wrong in "ten seconds", "10 parsecs", "", "-5s":
        with pytest.raises(lockwright.InvalidConfig, match=rf"\b{name}\b.*such as 500ms"):
            call(client, wrong)
    for wrong in [1], b"10s", object():
        with pytest.raises(TypeError, match=rf"^{name} must be a number of seconds.*not (list|bytes|object)$"):
            call(client, wrong)


@pytest.mark.parametrize(
    "name, call",
    [
        ("name", lambda client: client.lock(None)),
        ("name", lambda client: client.semaphore(3, 3)),
        ("name", lambda client: client.inspect(None)),
        ("layout", lambda client: client.lock("x", layout=3)),
        ("label", lambda client: client.lock("x", label=3)),
        ("secret", lambda client: client.resume(3)),
        ("url", lambda client: lockwright.connect(3)),
    ],
)
def test_an_error_names_the_text(name: str, call: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be a str, not (NoneType|int)$"):
        call(lockwright.connect("memory://units"))


def test_a_bare_number_that_is_hours_or_a_moment_is_warned_of() -> None:
    """Whoever writes 10000 mostly means 10 seconds, as many a library counts, and who writes 0.03 may mean half a minute."""
    client = lockwright.connect("memory://units")
    with pytest.warns(UserWarning, match="a ttl of 0.03 is 30 ms.*'500ms'"):
        client.lock("x", ttl=0.03)
    with client.lock("x") as guard, pytest.warns(UserWarning, match="999 ms"):
        guard.extend(0.999)
    with pytest.warns(UserWarning, match="a ttl of 10000 is 2.8 hours"):
        client.lock("x", ttl=10000)
    with client.lock("x") as guard, pytest.warns(UserWarning, match="hours"):
        guard.extend(10000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for meant in "10000", "3h", timedelta(hours=3), 3600, 1, "300ms", timedelta(milliseconds=20):
            client.lock("x", ttl=meant)
