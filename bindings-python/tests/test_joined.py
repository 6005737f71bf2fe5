"""Locks that redis-py takes too."""

from __future__ import annotations

import math
import os
import uuid
from typing import Iterator

import lockwright
import pytest
import redis

if "LOCKWRIGHT_TEST_REDIS" not in os.environ:
    pytest.skip("needs a server", allow_module_level=True)

ADDRESS = os.environ["LOCKWRIGHT_TEST_REDIS"]


@pytest.fixture
def name() -> str:
    return f"joined {uuid.uuid4()}"


@pytest.fixture
def joining() -> Iterator[lockwright.Client]:
    with lockwright.connect(f"{ADDRESS}?layout=string&format=redis-py&retry=5ms..20ms") as client:
        yield client


def test_each_excludes_the_other(joining: lockwright.Client, name: str) -> None:
    theirs = redis.Redis.from_url(ADDRESS).lock(name, timeout=30)
    with joining.lock(name) as guard:
        assert guard.token > 0 and not theirs.acquire(blocking=False)
    assert theirs.acquire(blocking=False)
    assert joining.lock(name).try_acquire() is None
    assert not joining.lock(name).acquire(timeout=0.05)
    theirs.release()
    with joining.lock(name) as later:
        assert later.token > guard.token


def test_a_holder_of_theirs_is_seen_and_cannot_be_broken(joining: lockwright.Client, name: str) -> None:
    theirs = redis.Redis.from_url(ADDRESS).lock(name)
    assert theirs.acquire(blocking=False)
    try:
        holder = joining.inspect(name).holder
        assert holder is not None and (holder.first_token, holder.language) == (0, "redis-py")
        assert holder.remaining == math.inf and holder.held_for is None
        assert not joining.break_lock(name, 0)
    finally:
        theirs.release()


def test_a_lock_is_looked_at_and_broken_in_its_own_layout(name: str) -> None:
    with lockwright.connect(ADDRESS) as client:
        lock = client.lock(name, layout="string", format="redis-py", retry=(0.005, 0.02), label="ours")
        assert client.guarantees().push and not lock.guarantees().push
        guard = lock.acquire_guard()
        holder = lock.inspect().holder
        assert holder is not None and (holder.first_token, holder.label) == (guard.token, "ours")
        assert lock.locked() and client.inspect(name).holder is None
        with pytest.raises(lockwright.ForeignLayout):
            client.lock(name, layout="string", format="redsync").inspect()
        assert lock.break_lock(guard.token)
        assert guard.lost.wait(5) and not lock.locked()


def test_formats_that_cannot_be_meant(name: str) -> None:
    with lockwright.connect(ADDRESS) as client:
        with pytest.raises(lockwright.Unsupported, match="redis-py, redsync, node-redlock, predis, spring-template"):
            client.lock(name, layout="string", format="jedis")
        with pytest.raises(lockwright.InvalidConfig, match="needs a format"):
            client.lock(name, layout="string")
        with pytest.raises(lockwright.InvalidConfig, match="no formats"):
            client.lock(name, format="redis-py")
        with pytest.raises(lockwright.Unsupported, match="fair"):
            client.lock(name, layout="string", format="redis-py", fair=True)
        for retry in (0.0, 1.0), (2.0, 1.0), (math.nan, 1.0):
            with pytest.raises(lockwright.InvalidConfig, match="retry"):
                client.lock(name, retry=retry)
