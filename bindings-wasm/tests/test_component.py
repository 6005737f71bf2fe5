"""The component on a real Redis, beside the native Python face."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Iterator

import lockwright
import pytest
import redis
from component import Failed, Instance
from conftest import Connect

ROUNDS = 40


def until(is_so: Callable[[], bool]) -> None:
    """Waits for what somebody else does."""
    limit = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < limit, "it did not happen"
        time.sleep(0.005)


def waits(native: lockwright.Client, name: str) -> bool:
    return native.inspect(name).waiters > 0


@pytest.fixture
def server() -> Iterator[redis.Redis]:
    with redis.Redis.from_url(os.environ["LOCKWRIGHT_TEST_REDIS"]) as client:
        yield client


def test_it_excludes_and_is_excluded(connect: Connect, native: lockwright.Client) -> None:
    lock = connect().lock("orders:42", label="edge")
    guard = lock.acquire()
    assert 29_000 < guard.remaining <= 30_000
    assert lock.try_acquire() is None
    assert connect().lock("orders:42").try_acquire() is None
    assert not native.lock("orders:42").acquire(blocking=False)
    holder = native.inspect("orders:42").holder
    assert (holder.language, holder.label) == ("wasm", "edge")
    assert guard.release() == "released"
    assert guard.remaining == 0 and guard.lost is None
    with native.lock("orders:42") as held:
        assert held.token > guard.token
        with pytest.raises(Failed) as refused:
            lock.acquire(timeout=50)
    assert refused.value.case == "timeout" and refused.value.retryable
    with pytest.raises(Failed) as refused:
        guard.release()
    assert refused.value.case == "not-owned"


@pytest.mark.parametrize("layout", ["native", "string", "redisson"])
def test_a_counter_shared_with_python_is_exact(
    connect: Connect, native: lockwright.Client, address: str, server: redis.Redis, layout: str
) -> None:
    options = {"layout": layout} | ({"format": "redis-py"} if layout == "string" else {})
    counter = f"{address.split('prefix=')[1]}sum"
    server.set(counter, 0)

    def count() -> None:
        """Loses what others add meanwhile, unless the lock keeps them out."""
        seen = int(server.get(counter))
        time.sleep(0.0005)
        server.set(counter, seen + 1)

    def in_wasm() -> None:
        lock = connect().lock("counter", **options)
        for _ in range(ROUNDS):
            guard = lock.acquire()
            count()
            assert guard.release() == "released"

    def in_python() -> None:
        lock = native.lock("counter", **options)
        for _ in range(ROUNDS):
            with lock:
                count()

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(work) for work in (in_wasm, in_python, in_wasm, in_python)]:
            done.result(timeout=60)
    assert int(server.get(counter)) == 4 * ROUNDS
    server.delete(counter)


def test_a_lock_is_handed_over_by_a_push(connect: Connect, native: lockwright.Client) -> None:
    instance = connect()
    # Others use the machine, too, which makes some of them slow.
    best = min(takeover(instance, native) for _ in range(5))
    assert best < 0.3, "it polls, or waits for the renewal that is due anyway"
    assert native.inspect("x").waiters == 0


def takeover(instance: Instance, native: lockwright.Client) -> float:
    """How long it takes from a native holder's release to a component's return from its wait, in seconds."""
    held = native.lock("x")
    assert held.acquire()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(instance.lock("x", fair=True).acquire, 20_000)
        until(lambda: waits(native, "x"))
        held.release()
        released = time.monotonic()
        guard = waiting.result(timeout=10)
        took = time.monotonic() - released
    assert guard.remaining > 25_000, "the claim was renewed"
    assert guard.release() == "released"
    return took


def test_who_waits_stands_in_line(connect: Connect, native: lockwright.Client) -> None:
    held, came = native.lock("x"), []
    assert held.acquire()
    with ThreadPoolExecutor() as pool:

        def wait(number: int) -> None:
            guard = connect().lock("x", fair=True).acquire(20_000)
            came.append(number)
            guard.release()

        waiters = []
        for number in range(3):
            waiters.append(pool.submit(wait, number))
            until(lambda: native.inspect("x").waiters == number + 1)
        held.release()
        [waiter.result(timeout=10) for waiter in waiters]
    assert came == [0, 1, 2]


def test_a_lease_that_ended_between_two_calls_is_lost(connect: Connect, native: lockwright.Client) -> None:
    guard = connect().lock("x", ttl=40).acquire()
    # In a call it would be renewed.
    time.sleep(0.1)
    assert guard.remaining == 0 and guard.lost == "expired"
    with native.lock("x") as held:
        assert held.token > guard.token
        with pytest.raises(Failed) as refused:
            guard.renew()
        assert refused.value.case == "lost"
        assert guard.release() in ("expired", "stolen")
        assert held.remaining() > 0, "a stale guard gave back what others hold"
        assert not native.lock("x").acquire(blocking=False)


def test_renew_makes_it_last_between_calls(connect: Connect, native: lockwright.Client) -> None:
    guard = connect().lock("x", ttl=300).acquire()
    begun = time.monotonic()
    while time.monotonic() - begun < 0.7:
        guard.renew()
        assert 0 < guard.remaining <= 300
        assert not native.lock("x").acquire(blocking=False)
        time.sleep(0.05)
    guard.renew(10_000)
    assert guard.remaining > 9_000
    assert guard.release() == "released"


def test_it_is_renewed_by_itself_within_a_call(connect: Connect, native: lockwright.Client) -> None:
    instance, other = connect(), native.lock("other")
    guard = instance.lock("x", ttl=1_500).acquire()
    assert other.acquire()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(instance.lock("other").acquire, 20_000)
        begun = time.monotonic()
        while time.monotonic() - begun < 3:
            assert not native.lock("x").acquire(blocking=False)
            time.sleep(0.05)
        other.release()
        waiting.result(timeout=10).release()
    assert guard.lost is None and guard.remaining > 0
    assert guard.release() == "released"


def test_a_lock_goes_to_a_fresh_instance(connect: Connect, native: lockwright.Client) -> None:
    guard = connect().lock("orders 42/\U0001f512").acquire()
    secret = guard.export(5_000)
    with pytest.raises(Failed) as refused:
        guard.release()
    assert refused.value.case == "not-owned"
    assert not native.lock("orders 42/\U0001f512").acquire(blocking=False)
    resumed = connect().resume(secret)
    assert resumed.token > guard.token
    with pytest.raises(Failed) as refused:
        connect().resume(secret)
    assert refused.value.case == "not-owned"
    with native.resume(resumed.export(5_000)) as held:
        assert held.token > resumed.token
    with pytest.raises(Failed) as refused:
        connect().resume("lwx1.7.x")
    assert refused.value.case == "invalid-config"


def test_a_guard_that_is_dropped_gives_its_lock_back(connect: Connect, native: lockwright.Client) -> None:
    instance = connect()
    guard = instance.lock("x").acquire()
    guard.drop()
    assert native.lock("x").acquire(timeout=5)


def test_a_guard_that_is_dropped_waits_until_the_server_knows_how(
    connect: Connect, native: lockwright.Client, server: redis.Redis
) -> None:
    guard = connect().lock("x").acquire()
    server.script_flush()
    guard.drop()
    assert native.lock("x").acquire(timeout=5)


def test_a_client_that_is_closed_gives_all_back(connect: Connect, native: lockwright.Client) -> None:
    instance = connect()
    lock, guards = instance.lock("x"), [instance.lock(name).acquire() for name in ("x", "y")]
    instance.close()
    assert [native.lock(name).acquire(blocking=False) for name in ("x", "y")] == [True, True]
    assert guards[0].lost == "closed" and guards[0].remaining == 0
    with pytest.raises(Failed) as refused:
        lock.acquire()
    assert refused.value.case == "closed"


def test_an_instance_that_is_gone_leaves_nothing_after_the_ttl(
    connect: Connect, native: lockwright.Client, address: str, server: redis.Redis
) -> None:
    instance = connect()
    instance.lock("x", ttl=300).acquire()
    del instance
    with native.lock("x") as held:
        assert held.token > 0
    kept = server.keys(f"lw:{{{address.split('prefix=')[1]}*")
    assert all(server.pttl(key) > 0 for key in kept), "what is left never goes"


def accepting(answer: bytes | None) -> Iterator[str]:
    """A server that answers so, or never."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        held = []

        def serve() -> None:
            while True:
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                held.append(peer)
                if answer is not None:
                    peer.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        [peer.close() for peer in held]


@pytest.fixture
def silent() -> Iterator[str]:
    yield from accepting(None)


@pytest.fixture
def web() -> Iterator[str]:
    yield from accepting(b"HTTP/1.1 400 Bad Request\r\n\r\n")


SHORT = "?connect_timeout=200ms&response_timeout=100ms&store_timeout=500ms"


def failure(instance: Instance) -> Failed:
    with pytest.raises(Failed) as refused:
        instance.lock("orders:42").acquire(timeout=10_000)
    assert "orders:42" in str(refused.value)
    return refused.value


def test_a_store_that_is_down_is_unavailable(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"redis://127.0.0.1:{listening.getsockname()[1]}"
    error = failure(connect(address + SHORT))
    assert (error.case, error.retryable) == ("unavailable", True)
    assert "nothing listens there" in error.advice and address in str(error)


def test_a_store_that_does_not_answer_is_unavailable(connect: Connect, silent: str) -> None:
    begun = time.monotonic()
    error = failure(connect(silent + SHORT))
    assert error.case == "unavailable" and time.monotonic() - begun < 5


def test_a_renewal_that_is_not_answered_in_time_is_unavailable(connect: Connect, address: str) -> None:
    guard = connect(address + "&response_timeout=100ms&store_timeout=300ms").lock("paused", ttl=20_000).acquire()
    redis.Redis.from_url(os.environ["LOCKWRIGHT_TEST_REDIS"]).client_pause(1_500)
    with pytest.raises(Failed) as refused:
        guard.renew()
    assert (refused.value.case, refused.value.retryable) == ("unavailable", True)
    assert guard.remaining > 10_000 and guard.lost is None
    for _ in range(50):
        try:
            guard.renew()
            break
        except Failed as error:
            assert error.case == "unavailable"
    assert guard.remaining > 19_000
    assert guard.release() == "released"


def test_what_is_no_redis_server_is_told(connect: Connect, web: str) -> None:
    error = failure(connect(web + SHORT))
    assert error.case == "protocol" and "HTTP/1.1" in str(error)


def test_a_host_that_grants_no_network_is_told(connect: Connect, address: str) -> None:
    error = failure(connect(address, network=False))
    assert (error.case, error.code, error.retryable) == ("auth", "auth", False)
    assert "grant" in error.advice


def test_a_wrong_password_is_told_and_never_shown(connect: Connect, address: str) -> None:
    error = failure(connect(address.replace("redis://", "redis://nobody:hunter2@")))
    assert error.case == "auth" and "hunter2" not in str(error)


ELSEWHERE = """
import sys
from component import Compiled, Instance
Instance(Compiled(sys.argv[1]), sys.argv[2]).lock("x").acquire(5_000).release()
"""


@pytest.mark.skipif(subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0, reason="only root gives a name addresses")
def test_each_address_of_a_name_is_tried(address: str, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("::1 both\n127.0.0.1 both\n")
    as_named = f'mount --bind {hosts} /etc/hosts && exec "$@"'
    asked = [sys.executable, "-c", ELSEWHERE, os.environ["LOCKWRIGHT_TEST_COMPONENT"], address.replace("127.0.0.1", "both")]
    here = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    done = subprocess.run(["unshare", "-m", "sh", "-c", as_named, "sh", *asked], env=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_store_that_ends_its_connections_is_dialled_anew(
    connect: Connect, native: lockwright.Client, server: redis.Redis
) -> None:
    instance = connect()
    guard = instance.lock("x").acquire()
    server.client_kill_filter(_type="normal", skipme=True)
    guard.renew()
    assert guard.release() == "released"
    held = native.lock("y")
    assert held.acquire()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(instance.lock("y", fair=True).acquire, 20_000)
        until(lambda: waits(native, "y"))
        server.client_kill_filter(_type="pubsub", skipme=True)
        held.release()
        assert waiting.result(timeout=10).release() == "released"


@pytest.mark.parametrize(
    ("address", "case"),
    [
        ("", "invalid-config"),
        ("localhost:6379", "invalid-config"),
        ("redis://h?tll=5s", "invalid-config"),
        ("redis://h?ttl=1ms", "invalid-config"),
        ("rediss://h", "unsupported"),
        ("redis+unix:///s", "unsupported"),
        ("redis://a redis://b redis://c", "unsupported"),
        ("sqlite://", "unsupported"),
        ("etcd://h", "unsupported"),
        ("lockwright://orders", "unsupported"),
        ("redis://a,b", "unsupported"),
    ],
)
def test_addresses_that_cannot_be_used_are_refused_at_once(connect: Connect, address: str, case: str) -> None:
    with pytest.raises(Failed) as refused:
        connect(address)
    assert refused.value.case == case and refused.value.advice


@pytest.mark.parametrize(
    ("options", "case"),
    [
        ({"ttl": 0}, "invalid-config"),
        ({"ttl": 2**64 - 1}, "invalid-config"),
        ({"rank": 3}, "invalid-config"),
        ({"rank": 10, "fair": True}, "invalid-config"),
        ({"renew": False, "max_hold": 60_000}, "invalid-config"),
        ({"layout": "string"}, "invalid-config"),
        ({"layout": "nothing"}, "unsupported"),
        ({"layout": "string", "format": "redis-py", "fair": True}, "unsupported"),
        ({"label": "x" * 129}, "invalid-config"),
    ],
)
def test_options_that_cannot_be_honoured_are_refused(connect: Connect, options: dict[str, object], case: str) -> None:
    with pytest.raises(Failed) as refused:
        connect().lock("x", **options)
    assert refused.value.case == case


@pytest.mark.parametrize("name", ["", "x" * 1025, "a\0b"])
def test_names_that_cannot_be_are_refused(connect: Connect, name: str) -> None:
    with pytest.raises(Failed) as refused:
        connect().lock(name)
    assert refused.value.case == "invalid-config"
