from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import lockwright
import pytest

SURROGATE = "\ud800"
NAN = float("nan")


@pytest.mark.parametrize(
    "error, base",
    [
        (lockwright.LockTimeout, TimeoutError),
        (lockwright.NotOwned, RuntimeError),
        (lockwright.InvalidConfig, ValueError),
    ],
)
def test_errors_are_those_of_threading_too(error: type[lockwright.LockError], base: type[Exception]) -> None:
    assert issubclass(error, base)


def test_what_an_error_tells(client: lockwright.Client, other: lockwright.Client) -> None:
    with other.lock("x"):
        with pytest.raises(lockwright.LockTimeout) as raised:
            client.lock("x").acquire_guard(timeout=0.01)
    error = raised.value
    assert (error.code, error.retryable, error.operation, error.lock) == ("timeout", True, "acquire", "x")
    assert error.store == client.address
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == str(error)
    assert (copy.operation, copy.lock, copy.store) == (error.operation, error.lock, error.store)


@pytest.mark.parametrize("name", ["", "x" * 1025, "a\0b", "a\nb", SURROGATE, "é" * 513])
def test_bad_names(client: lockwright.Client, name: str) -> None:
    for make in client.lock, client.rlock, client.inspect, lambda name: client.break_lock(name, 1):
        with pytest.raises(lockwright.InvalidConfig):
            make(name)


@pytest.mark.parametrize("name", ["{x}", "100%", "a/b/..", "订单:42", "x" * 1024, " ", "a\\b", "'\""])
def test_good_names(client: lockwright.Client, name: str) -> None:
    with client.lock(name) as guard:
        assert guard.name == name
        assert client.list() == [name]


@pytest.mark.parametrize(
    "options",
    [
        {"ttl": 0},
        {"ttl": -1},
        {"ttl": NAN},
        {"ttl": 0.001},
        {"ttl": 1e9},
        {"ttl": 10**400},
        {"ttl": float("inf")},
        {"timeout": -2},
        {"timeout": NAN},
        {"timeout": 1e300},
        {"max_hold": -1},
        {"max_hold": 1},
        {"max_hold": 60, "renew": False},
        {"label": "x" * 129},
        {"label": "a\tb"},
        {"label": SURROGATE},
        {"layout": SURROGATE},
    ],
)
def test_bad_options(client: lockwright.Client, options: dict[str, Any]) -> None:
    for make in client.lock, client.rlock:
        with pytest.raises(lockwright.InvalidConfig) as raised:
            make("x", **options)
        assert raised.value.operation == "lock"


def test_unsupported_options(client: lockwright.Client) -> None:
    with pytest.raises(lockwright.Unsupported):
        client.lock("x", layout="no such layout")


@pytest.mark.parametrize("timeout", [-2, -0.001, NAN, "-1s", "soon"])
def test_bad_timeouts(client: lockwright.Client, timeout: float) -> None:
    lock = client.lock("x")
    for attempt in lock.acquire, lock.acquire_guard:
        with pytest.raises(lockwright.InvalidConfig):
            attempt(timeout=timeout)
    with pytest.raises(lockwright.InvalidConfig):
        lock.acquire(blocking=False, timeout=1)
    assert not lock.locked()


@pytest.mark.parametrize("token", [-1, 1 << 64])
def test_tokens_out_of_range(client: lockwright.Client, token: int) -> None:
    with pytest.raises(lockwright.InvalidConfig):
        client.break_lock("x", token)


@pytest.mark.parametrize(
    "url",
    ["", " ", "nonsense", "no-such://h", "memory://a/path", "memory://?no_such=1", "memory://?ttl=never", SURROGATE],
)
def test_bad_addresses(url: str) -> None:
    with pytest.raises(lockwright.InvalidConfig) as raised:
        lockwright.connect(url)
    assert raised.value.operation == "connect"


@pytest.mark.parametrize("url", ["memory://a memory://b", "memory://?keep=true"])
def test_unsupported_addresses(url: str) -> None:
    with pytest.raises(lockwright.Unsupported):
        lockwright.connect(url)


@pytest.mark.parametrize("option", ["connect_timeout", "response_timeout", "store_timeout"])
@pytest.mark.parametrize("value", [-1, NAN, 1e300])
def test_bad_connection_options(option: str, value: float) -> None:
    with pytest.raises(lockwright.InvalidConfig, match=option):
        lockwright.connect("memory://", **{option: value})  # type: ignore[arg-type]


def test_the_address_gives_the_defaults(store_uri: str) -> None:
    separator = "&" if "?" in store_uri else "?"
    with lockwright.connect(f"{store_uri}{separator}ttl=10s&timeout=10ms") as client:
        # A busy store may take longer than the address allows.
        with client.lock("x", timeout=30) as guard:
            assert 9 < guard.remaining() <= 10
            assert not client.lock("x").acquire()
        with client.lock("x", ttl=20, timeout=30) as guard:
            assert guard.remaining() > 15


def test_the_environment_names_the_store(store_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKWRIGHT_URL", store_uri)
    with lockwright.connect() as client, lockwright.connect(store_uri) as other:
        assert client.address == other.address
        with client.lock("x"):
            assert other.lock("x").locked()


def test_no_secret_is_shown() -> None:
    shown = []
    try:
        client = lockwright.connect("redis://user:hunter2@127.0.0.1:1/0", store_timeout=0.1)
        shown += [repr(client), client.address, repr(client.lock("x"))]
        client.lock("x").acquire()
    except lockwright.LockError as error:
        shown += [str(error), repr(error), str(error.store)]
    for url in "redis://user:hunter2@h:notaport/", "no-such-store://user:hunter2@h", "redis://:hunter2@[h":
        with pytest.raises(lockwright.InvalidConfig) as raised:
            lockwright.connect(url)
        shown += [str(raised.value), repr(raised.value)]
    assert shown and not any("hunter2" in text for text in shown)


def test_repr(client: lockwright.Client) -> None:
    assert repr(client) == f"<lockwright.Client {client.address}>"
    assert repr(client.lock("a'b")) == f"<lockwright.Lock \"a'b\" on {client.address}>"
    assert repr(client.rlock("x")) == f"<lockwright.RLock 'x' on {client.address}>"


def test_nothing_here_travels_to_another_process(client: lockwright.Client) -> None:
    guard = client.lock("x").acquire_guard()
    for live in client, client.lock("x"), guard, guard.lost:
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(live)
    guard.release()


def test_certificates_are_paths(tmp_path: Path) -> None:
    with lockwright.connect("memory://", ca=tmp_path, cert=str(tmp_path), key=tmp_path) as client:
        assert client.address == "memory://"
