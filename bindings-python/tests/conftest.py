from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, Callable, Coroutine, Iterator

import lockwright
import lockwright.aio
import pytest
import uvloop

Run = Callable[[Coroutine[Any, Any, Any]], Any]

_serial = itertools.count()


def space(store: str, folder: Path) -> str:
    """An address where nobody else keeps locks."""
    name = f"test-{os.getpid()}-{next(_serial)}"
    if store == "memory":
        return f"memory://{name}"
    if store == "sqlite":
        return f"sqlite://{folder / name}.db"
    return f"{os.environ['LOCKWRIGHT_TEST_REDIS']}?prefix={name}:"


RAM = Path("/dev/shm")


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where lock files lie: in memory, since what is tested here is not how slow a busy disk is. `test_several` uses the disk."""
    if not os.access(RAM, os.W_OK):
        yield tmp_path_factory.mktemp("locks")
        return
    with tempfile.TemporaryDirectory(dir=RAM) as folder:
        yield Path(folder)


def supported() -> Iterator[str]:
    for store in ("memory", "sqlite", "redis"):
        if store == "redis" and "LOCKWRIGHT_TEST_REDIS" not in os.environ:
            continue
        try:
            lockwright.connect(space(store, Path("/tmp"))).close()
        except (lockwright.InvalidConfig, lockwright.Unsupported):
            continue
        yield store


STORES = list(supported())


@pytest.fixture(params=STORES)
def store_uri(request: pytest.FixtureRequest, scratch: Path) -> str:
    return space(request.param, scratch)


@pytest.fixture
def client(store_uri: str) -> Iterator[lockwright.Client]:
    with lockwright.connect(store_uri) as client:
        yield client


@pytest.fixture
def other(store_uri: str) -> Iterator[lockwright.Client]:
    """A second client of the same place: as another process, but in this one."""
    with lockwright.connect(store_uri) as client:
        yield client


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """`asyncio.run` with a kind of event loop."""

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        if request.param == "asyncio":
            return asyncio.run(main)
        return uvloop.run(main)

    return run


def soon_lost(client: lockwright.Client, name: str) -> lockwright.Guard:
    """A guard that is lost in a moment. On a busy machine it may be before the call returns: then it is another one."""
    while True:
        try:
            return client.lock(name, ttl="50ms", renew=False).acquire_guard()
        except lockwright.LockLost:
            pass


async def soon_lost_by_task(client: lockwright.aio.Client, name: str) -> lockwright.aio.Guard:
    while True:
        try:
            return await client.lock(name, ttl="50ms", renew=False).acquire_guard()
        except lockwright.LockLost:
            pass


def fork(work: Callable[[], None]) -> int:
    """Does `work` in a forked child, which never returns from here. A child that hangs is killed by its alarm."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(30)
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def joined(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
