from __future__ import annotations

import itertools
import os
from typing import Callable, Iterator

import lockwright
import pytest
from component import Compiled, Instance

_serial = itertools.count()

Connect = Callable[..., Instance]


@pytest.fixture(scope="session")
def compiled() -> Compiled:
    return Compiled(os.environ["LOCKWRIGHT_TEST_COMPONENT"])


@pytest.fixture
def address() -> str:
    """Where nobody else keeps locks."""
    return f"{os.environ['LOCKWRIGHT_TEST_REDIS']}?prefix=wasm-{os.getpid()}-{next(_serial)}:"


@pytest.fixture
def connect(compiled: Compiled, address: str) -> Connect:
    """Makes an instance of its own: `connect()`, or of another address, or without a network."""
    return lambda at=address, **how: Instance(compiled, at, **how)


@pytest.fixture
def native(address: str) -> Iterator[lockwright.Client]:
    """The same locks in Python."""
    with lockwright.connect(address) as client:
        yield client
