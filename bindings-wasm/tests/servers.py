"""Redis servers with TLS, and what they show: made anew for a test."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Sequence

EC = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
EC384 = ("ec", "-pkeyopt", "ec_paramgen_curve:P-384")
RSA = ("rsa:2048",)
# What a machine's own file has would contradict ours.
CONFIG = """
[req]
distinguished_name = name
[name]
[ca]
default_ca = ours
[ours]
database = index
new_certs_dir = .
serial = serial
policy = any
unique_subject = no
[any]
commonName = supplied
"""


def openssl(folder: Path, *arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


class Certificate:
    """A certificate and its key, as files and as text."""

    def __init__(self, folder: Path, name: str) -> None:
        self.file, self.key_file = folder / f"{name}.crt", folder / f"{name}.key"

    @property
    def pem(self) -> str:
        return self.file.read_text()

    @property
    def key(self) -> str:
        return self.key_file.read_text()


class Authority(Certificate):
    """Who issues certificates, under a name that others may have, too."""

    def __init__(self, folder: Path, key: Sequence[str] = EC, digest: str = "sha256") -> None:
        folder.mkdir()
        super().__init__(folder, "ca")
        self.folder, self.digest = folder, digest
        self.config = folder / "config"
        self.config.write_text(CONFIG)
        (folder / "index").touch()
        (folder / "serial").write_text("01\n")
        self.made("ca", "/CN=Lockwright", key, "-x509", "-days", "30", "-out", self.file,
                  "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign")  # fmt: skip

    def made(self, name: str, subject: str, key: Sequence[str], *more: str | Path) -> None:
        openssl(self.folder, "req", "-config", self.config, "-newkey", *key, "-noenc", f"-{self.digest}", "-subj", subject,
                "-keyout", f"{name}.key", *more)  # fmt: skip

    def issue(
        self,
        name: str,
        alternatives: str = "DNS:localhost,IP:127.0.0.1",
        key: Sequence[str] = EC,
        signed: Sequence[str] = (),
        begins: str = "20200101000000Z",
        ends: str = "20900101000000Z",
    ) -> Certificate:
        certificate = Certificate(self.folder, name)
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternatives}\nbasicConstraints=critical,CA:FALSE\n")
        self.made(name, f"/CN={name}", key, "-out", f"{name}.csr")
        openssl(self.folder, "ca", "-batch", "-notext", "-config", self.config, "-in", f"{name}.csr", "-cert", self.file,
                "-keyfile", self.key_file, "-md", self.digest, *signed, "-startdate", begins, "-enddate", ends,
                "-extfile", extensions, "-out", certificate.file)  # fmt: skip
        return certificate


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@contextmanager
def served(shows: Certificate, *more: str, trusts: Certificate | None = None, groups: str = "") -> Iterator[int]:
    """A server that shows this certificate, and wants one where it `trusts` an authority, on the port that it is at."""
    port = free_port()
    files = ["--tls-cert-file", shows.file, "--tls-key-file", shows.key_file]
    trust = ["--tls-ca-cert-file", (trusts or shows).file, "--tls-auth-clients", "yes" if trusts else "no"]
    environment = dict(os.environ)
    if groups:
        settings = shows.file.with_suffix(".cnf")
        settings.write_text(f"openssl_conf=a\n[a]\nssl_conf=b\n[b]\nsystem_default=c\n[c]\nGroups={groups}\n")
        environment["OPENSSL_CONF"] = str(settings)
    command = ["redis-server", "--port", "0", "--bind", "127.0.0.1", "--tls-port", str(port), "--save", "", *files, *trust, *more]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, cwd=shows.file.parent)
    try:
        limit = time.monotonic() + 20
        while not answers(port):
            assert process.poll() is None and time.monotonic() < limit, "the server does not start"
            time.sleep(0.01)
        yield port
    finally:
        process.kill()
        process.wait()
