"""Credentials from a callable. The driver asks for them on its own thread too, which must not run Python."""

from __future__ import annotations

import logging
import os
import threading
from typing import Any, Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import lockwright
import pytest
from conftest import fork, joined

if "LOCKWRIGHT_TEST_REDIS_TLS" not in os.environ:
    pytest.skip("needs a server that asks for a password", allow_module_level=True)

SERVER = urlsplit(os.environ["LOCKWRIGHT_TEST_REDIS_TLS"])
FILES = {option: values[0] for option, values in parse_qs(SERVER.query).items()}
USER, PASSWORD = SERVER.username or "", SERVER.password or ""

Ask = Callable[[], Any]


@pytest.fixture
def connect() -> Iterator[Callable[[Ask], lockwright.Client]]:
    clients: list[lockwright.Client] = []

    def connect(credentials: Ask) -> lockwright.Client:
        url = f"rediss://{SERVER.hostname}:{SERVER.port}"
        client = lockwright.connect(url, prefix=f"credentials-{os.getpid()}:", credentials=credentials, **FILES)
        clients.append(client)
        return client

    yield connect
    for client in clients:
        client.close()


Connect = Callable[[Ask], lockwright.Client]


def test_they_are_asked_for_at_every_connection(connect: Connect) -> None:
    asked_by: list[str] = []

    def credentials() -> tuple[str, str]:
        asked_by.append(threading.current_thread().name)
        return USER, PASSWORD

    client, other = connect(credentials), connect(credentials)
    with client.lock("x") as guard:
        assert asked_by == [threading.current_thread().name]
        # Whoever waits is told of its turn over a connection of the driver's own.
        assert not other.lock("x").acquire(timeout=0.5)
        assert "lockwright-dispatcher" in asked_by
    assert guard.why_lost is None

    def child() -> None:
        before = len(asked_by)
        with client.lock("x"):
            assert not other.lock("x").acquire(timeout=0.5)
        assert len(asked_by) > before and "lockwright-dispatcher" in asked_by[before:]

    assert joined(fork(child)) == 0


@pytest.mark.parametrize("password", ["wrong", None])
def test_wrong_ones(connect: Connect, password: str | None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(lockwright.AuthFailed):
        connect(lambda: (USER, password)).lock("x").acquire()
    assert bool(caplog.records) == (password is None)


def test_a_callable_that_raises(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    def credentials() -> tuple[str, str]:
        raise KeyError("the vault is closed")

    with caplog.at_level(logging.ERROR), pytest.raises(lockwright.AuthFailed) as raised:
        connect(credentials).lock("x").acquire()
    assert "the vault is closed" in caplog.text
    assert "KeyError: 'the vault is closed'" in str(raised.value)


def test_a_callable_that_raises_what_cannot_be_shown(connect: Connect) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            return "\ud800"

    def credentials() -> tuple[str, str]:
        raise Odd

    with pytest.raises(lockwright.AuthFailed, match="raised Odd: \\?"):
        connect(credentials).lock("x").acquire()


@pytest.mark.parametrize(
    "answer", [None, PASSWORD, (USER,), (USER, PASSWORD, ""), 5, (USER, PASSWORD.encode()), ("\ud800", PASSWORD)]
)
def test_what_is_no_pair_of_strings(connect: Connect, answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(lockwright.AuthFailed) as raised:
        connect(lambda: answer).lock("x").acquire()
    assert "two strings" in caplog.text and "two strings" in str(raised.value)
    assert not PASSWORD or PASSWORD not in caplog.text + str(raised.value)
