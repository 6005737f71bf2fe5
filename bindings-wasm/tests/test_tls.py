"""The component with TLS on real Redis servers that have it, beside the native Python face."""

from __future__ import annotations

import itertools
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Callable, Iterator, Sequence
from urllib.parse import parse_qsl, urlsplit

import lockwright
import pytest
import redis
from component import Compiled, Failed, Instance
from servers import EC, EC384, RSA, Authority, Certificate, served
from test_component import takeover, until, waits

_serial = itertools.count()

SHORT = "?connect_timeout=1s&store_timeout=2s"

Secure = Callable[..., Instance]


@pytest.fixture(scope="session")
def compiled() -> Compiled:
    return Compiled(os.environ["LOCKWRIGHT_TEST_COMPONENT_TLS"])


@pytest.fixture
def address() -> str:
    """Where nobody else keeps locks, as a native client reaches it: with files."""
    return f"{os.environ['LOCKWRIGHT_TEST_REDIS_TLS']}&prefix=tls-{os.getpid()}-{next(_serial)}:"


@pytest.fixture
def secure(compiled: Compiled, address: str) -> Secure:
    """Makes an instance with what is in those files."""
    parts = urlsplit(address)
    files = dict(parse_qsl(parts.query))
    prefix = files.pop("prefix")
    certificates = {name: Path(file).read_text() for name, file in files.items()}
    return lambda: Instance(compiled, parts._replace(query=f"prefix={prefix}").geturl(), certificates=certificates)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="session")
def stranger(authority: Authority) -> Authority:
    """Another authority, of the same name."""
    return Authority(authority.folder.parent / "stranger")


@pytest.fixture(scope="session")
def shown(authority: Authority) -> Certificate:
    return authority.issue("server")


@pytest.fixture
def at(compiled: Compiled) -> Callable[..., Instance]:
    def connect(port: int, host: str = "127.0.0.1", scheme: str = "rediss", **certificates: str) -> Instance:
        return Instance(compiled, f"{scheme}://{host}:{port}{SHORT}", certificates=certificates)

    return connect


def locks(instance: Instance) -> None:
    guard = instance.lock("x").acquire(5_000)
    assert guard.release() == "released"


def failure(instance: Instance) -> Failed:
    with pytest.raises(Failed) as refused:
        instance.lock("x").acquire(10_000)
    return refused.value


# Beside a native client


def test_it_excludes_and_is_excluded(secure: Secure, native: lockwright.Client) -> None:
    guard = secure().lock("orders:42").acquire()
    assert secure().lock("orders:42").try_acquire() is None
    assert not native.lock("orders:42").acquire(blocking=False)
    assert native.inspect("orders:42").holder.language == "wasm"
    assert guard.release() == "released"
    with native.lock("orders:42") as held:
        assert held.token > guard.token
        with pytest.raises(Failed) as refused:
            secure().lock("orders:42").acquire(50)
        assert refused.value.case == "timeout"


def test_a_lock_is_handed_over_by_a_push(secure: Secure, native: lockwright.Client) -> None:
    instance = secure()
    best = min(takeover(instance, native) for _ in range(5))
    assert best < 0.3, "it polls, or waits for the renewal that is due anyway"
    held = instance.lock("x").acquire()
    with ThreadPoolExecutor() as pool:
        one = pool.submit(secure().lock("x", fair=True).acquire, 20_000)
        until(lambda: waits(native, "x"))
        other = pool.submit(native.lock("x", fair=True).acquire_guard, timeout=20)
        until(lambda: native.inspect("x").waiters == 2)
        held.release()
        guard = one.result(timeout=10)
        assert guard.token > held.token and guard.release() == "released"
        assert other.result(timeout=10).token > guard.token


def test_a_reply_of_many_records_is_read(secure: Secure, native: lockwright.Client) -> None:
    many = 600
    permits = secure().semaphore("reports", 1_000).permits()
    guards = [permits.acquire(5_000) for _ in range(many)]
    # Each holder shows some 40 bytes at least; a record has room for 16,384.
    assert len(secure().inspect("reports").shared.holders) == len(native.inspect("reports").shared.holders) == many
    assert {guard.release() for guard in guards} == {"released"}


def test_a_connection_that_is_cut_is_made_anew(secure: Secure) -> None:
    instance = secure()
    guard = instance.lock("x").acquire()
    cut_all()
    guard.renew()
    assert guard.release() == "released"


def cut_all() -> None:
    """Ends all connections to the server, as an administrator does."""
    files = dict(parse_qsl(urlsplit(os.environ["LOCKWRIGHT_TEST_REDIS_TLS"]).query))
    folder = Path(files["ca"]).parent
    with redis.Redis(unix_socket_path=str(folder / "socket"), password=(folder / "admin").read_text().strip()) as server:
        server.client_kill_filter(_type="normal", skipme=True)


# Bytes that come as they like


SIZES = (1, 2, 3, 5, 7, 600)


@contextmanager
def through(port: int, sizes: Sequence[int] = SIZES, spoils: int = -1) -> Iterator[int]:
    """Hands on connections in parts of these sizes, and spoils the byte of that number that a server sends."""
    listening = socket.create_server(("127.0.0.1", 0))

    def hand_on(source: socket.socket, to: socket.socket, spoils: int) -> None:
        came, size = 0, itertools.cycle(sizes)
        with suppress(OSError):
            to.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while part := bytearray(source.recv(next(size))):
                if came <= spoils < came + len(part):
                    part[spoils - came] ^= 0x10
                came += len(part)
                to.sendall(part)
            to.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = socket.create_connection(("127.0.0.1", port))
                for way in ((near, far, -1), (far, near, spoils)):
                    threading.Thread(target=hand_on, args=way, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listening:
        yield listening.getsockname()[1]


def test_records_in_small_parts_are_put_together(at: Callable[..., Instance], authority: Authority, shown: Certificate) -> None:
    with served(shown) as port, through(port) as small:
        instance = at(small, ca=authority.pem)
        for _ in range(5):
            locks(instance)
        assert instance.ping().took > 0


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_what_was_spoilt_on_the_way_is_refused(
    at: Callable[..., Instance], authority: Authority, shown: Certificate, version: str
) -> None:
    def tried(port: int, byte: int) -> str:
        with through(port, (16_384,), byte) as spoiling, suppress(Failed):
            locks(at(spoiling, ca=authority.pem))
            return "unnoticed"
        return "refused"

    with served(shown, "--tls-protocols", f"TLSv{version}") as port, ThreadPoolExecutor(8) as pool:
        # From the first byte of the greeting to replies.
        found = list(pool.map(lambda byte: tried(port, byte), range(0, 1_200, 29)))
    assert found.count("refused") == len(found), found


# What servers show and speak

SUITES = [
    (EC, "1.3", "TLS_AES_256_GCM_SHA384"),
    (EC, "1.3", "TLS_AES_128_GCM_SHA256"),
    (EC, "1.3", "TLS_CHACHA20_POLY1305_SHA256"),
    (EC, "1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (EC, "1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (EC, "1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (RSA, "1.2", "ECDHE-RSA-AES256-GCM-SHA384"),
    (RSA, "1.2", "ECDHE-RSA-AES128-GCM-SHA256"),
    (RSA, "1.2", "ECDHE-RSA-CHACHA20-POLY1305"),
]


@pytest.mark.parametrize("groups", ["X25519", "P-256", "P-384"])
@pytest.mark.parametrize(("key", "version", "suite"), SUITES, ids=[suite for _, _, suite in SUITES])
def test_every_suite_is_spoken(
    at: Callable[..., Instance], authority: Authority, key: tuple[str, ...], version: str, suite: str, groups: str
) -> None:
    kind = "--tls-ciphersuites" if version == "1.3" else "--tls-ciphers"
    shown = authority.issue(f"{suite}-{groups}", key=key)
    with served(shown, "--tls-protocols", f"TLSv{version}", kind, suite, groups=groups) as port:
        locks(at(port, ca=authority.pem))


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize(
    ("of_authority", "of_server", "digest", "signed"),
    [
        (RSA, RSA, "sha256", ()),
        (RSA, EC, "sha512", ()),
        (("rsa:4096",), EC384, "sha384", ()),
        (RSA, EC, "sha256", ("-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:digest")),
        (EC384, EC384, "sha384", ()),
        (EC384, EC, "sha256", ()),
        (EC, EC384, "sha384", ()),
    ],
)
def test_every_kind_of_certificate_is_read(
    at: Callable[..., Instance],
    tmp_path: Path,
    version: str,
    of_authority: tuple[str, ...],
    of_server: tuple[str, ...],
    digest: str,
    signed: tuple[str, ...],
) -> None:
    authority = Authority(tmp_path / "own", of_authority, digest)
    with served(authority.issue("server", key=of_server, signed=signed), "--tls-protocols", f"TLSv{version}") as port:
        locks(at(port, ca=authority.pem))


@pytest.mark.parametrize("key", [EC, EC384])
@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_it_shows_its_own_certificate(
    at: Callable[..., Instance], authority: Authority, shown: Certificate, key: tuple[str, ...], version: str
) -> None:
    own = authority.issue("client", key=key)
    with served(shown, "--tls-protocols", f"TLSv{version}", trusts=authority) as port:
        locks(at(port, ca=authority.pem, cert=own.pem, key=own.key))


def test_a_name_of_a_host_is_checked_as_such(at: Callable[..., Instance], authority: Authority) -> None:
    with served(authority.issue("named", "DNS:localhost")) as port:
        locks(at(port, "localhost", ca=authority.pem))
        assert "another name" in failure(at(port, ca=authority.pem)).advice


# Servers that are not trusted, and that do not trust


def distrusted(error: Failed, *says: str) -> None:
    assert (error.case, error.code, error.retryable) == ("auth", "auth", False), str(error)
    for part in says:
        assert part in str(error), str(error)
    assert "BEGIN" not in str(error)


def test_a_server_of_a_stranger_is_not_trusted(
    at: Callable[..., Instance], authority: Authority, stranger: Authority, shown: Certificate
) -> None:
    with served(shown) as port:
        for trusted in (stranger.pem, None):
            given = {} if trusted is None else {"ca": trusted}
            distrusted(failure(at(port, **given)), "not trusted", "connect-with", f"rediss://127.0.0.1:{port}")
        locks(at(port, ca=stranger.pem + authority.pem))


def test_a_server_with_another_name_is_not_trusted(at: Callable[..., Instance], authority: Authority) -> None:
    with served(authority.issue("elsewhere", "DNS:elsewhere.example,IP:127.0.0.2")) as port:
        for host in ("127.0.0.1", "localhost"):
            distrusted(failure(at(port, host, ca=authority.pem)), "another name", "elsewhere.example")


@pytest.mark.parametrize(
    ("dates", "says"),
    [
        ({"ends": "20200102000000Z"}, "no longer valid"),
        ({"begins": "20891231000000Z"}, "not valid yet"),
    ],
)
def test_a_certificate_of_another_time_is_not_trusted(
    at: Callable[..., Instance], authority: Authority, dates: dict[str, str], says: str
) -> None:
    with served(authority.issue(f"at-{next(_serial)}", **dates)) as port:
        distrusted(failure(at(port, ca=authority.pem)), says, "clock")


def test_a_certificate_of_nobody_is_not_trusted(at: Callable[..., Instance], tmp_path: Path, authority: Authority) -> None:
    """Issued by whoever has a certificate, but is no authority."""
    forger = authority.issue("forger")
    own = Authority(tmp_path / "forger")
    own.file, own.key_file = forger.file, forger.key_file
    forged = own.issue("forged")
    forged.file.write_text(forged.pem + forger.pem)
    with served(forged) as port:
        distrusted(failure(at(port, ca=authority.pem)))


def test_a_server_that_wants_a_certificate_says_so(
    at: Callable[..., Instance], authority: Authority, stranger: Authority, shown: Certificate
) -> None:
    theirs = stranger.issue("client")
    for version in ("1.2", "1.3"):
        with served(shown, "--tls-protocols", f"TLSv{version}", trusts=authority) as port:
            for own in ({}, {"cert": theirs.pem, "key": theirs.key}):
                distrusted(failure(at(port, ca=authority.pem, **own)), "cert and key", "ended the connection by TLS")


def test_a_server_without_tls_is_told(at: Callable[..., Instance], authority: Authority) -> None:
    port = urlsplit(os.environ["LOCKWRIGHT_TEST_REDIS"]).port
    error = failure(at(port, ca=authority.pem))
    assert error.case in ("protocol", "unavailable") and "redis:// for rediss://" in error.advice


def test_a_server_with_tls_is_told(at: Callable[..., Instance], shown: Certificate) -> None:
    with served(shown) as port:
        error = failure(at(port, scheme="redis"))
    assert "rediss://" in error.advice


def test_a_server_with_nothing_in_common_is_told(at: Callable[..., Instance], authority: Authority) -> None:
    shown = authority.issue("old", key=RSA)
    with served(shown, "--tls-protocols", "TLSv1.2", "--tls-ciphers", "AES128-GCM-SHA256") as port:
        distrusted(failure(at(port, ca=authority.pem)), "HandshakeFailure")


# What is given


def test_certificates_that_are_of_no_use_are_refused_at_once(
    compiled: Compiled, authority: Authority, shown: Certificate, stranger: Authority
) -> None:
    old = authority.issue("rsa", key=RSA)
    other = stranger.issue("other")
    for given, says in (
        ({"ca": str(authority.file)}, "ca cannot be used"),
        ({"ca": ""}, "ca cannot be used"),
        ({"ca": shown.key}, "ca cannot be used"),
        ({"ca": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}, "ca cannot be used"),
        ({"cert": shown.pem}, "go together"),
        ({"key": shown.key}, "go together"),
        ({"cert": shown.pem, "key": "hunter2"}, "key cannot be used"),
        ({"cert": shown.pem, "key": shown.pem}, "key cannot be used"),
        ({"cert": shown.key, "key": shown.key}, "cert cannot be used"),
        ({"cert": old.pem, "key": old.key}, "P-256 or P-384"),
        ({"cert": shown.pem, "key": other.key}, "key cannot be used"),
    ):
        with pytest.raises(Failed) as refused:
            Instance(compiled, "rediss://h", certificates=given)
        assert refused.value.case == "invalid-config" and says in str(refused.value), (says, str(refused.value))
        assert "hunter2" not in str(refused.value) and "BEGIN" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "given", "case"),
    [
        ("redis://h", {"ca": "x"}, "invalid-config"),
        ("rediss://h?ca=ca.crt", {}, "unsupported"),
        ("rediss://h?cert=a&key=b", {}, "unsupported"),
        ("rediss://a_host!", {}, "invalid-config"),
        ("rediss+cluster://h", {}, "unsupported"),
    ],
)
def test_addresses_that_cannot_be_used_are_refused(compiled: Compiled, address: str, given: dict[str, str], case: str) -> None:
    with pytest.raises(Failed) as refused:
        Instance(compiled, address, certificates=given)
    assert refused.value.case == case and refused.value.advice


def test_without_tls_the_component_names_the_other(shown: Certificate) -> None:
    plain = Compiled(os.environ["LOCKWRIGHT_TEST_COMPONENT"])
    for certificates in (None, {}, {"ca": shown.pem}):
        with pytest.raises(Failed) as refused:
            Instance(plain, "rediss://user:hunter2@h", certificates=certificates)
        assert refused.value.case == "unsupported" and "lockwright-tls.component.wasm" in refused.value.advice
        assert "hunter2" not in str(refused.value)
    with pytest.raises(Failed) as refused:
        Instance(plain, "redis://h", certificates={"ca": shown.pem})
    assert refused.value.case == "invalid-config"
