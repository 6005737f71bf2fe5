"""kazoo's Lock, its ReadLock and WriteLock, and its Semaphore, as a peer. They last as long as their client's session.

Arguments are patterns of names of other nodes that are to be waited for, too.
"""

from __future__ import annotations

import pathlib
import re
import sys
import threading
from importlib.metadata import version
from typing import Any, Dict, Optional
from urllib.parse import urlsplit

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

sys.path.append(str(pathlib.Path(__file__).parents[2] / "shims"))
from python_common import Command, now  # noqa: E402
from python_peer import TTL, Failed, Held, Peer  # noqa: E402


class Connection:
    def __init__(self, uri: str) -> None:
        address = urlsplit(uri)
        found = re.search(r"(?:^|&)ttl=([0-9.]+)(ms|s)", address.query)
        self.ttl = float(found[1]) / (1000 if found[2] == "ms" else 1) if found else TTL
        self.root = address.path
        self.kazoo = KazooClient(hosts=address.netloc, timeout=self.ttl)
        self.kazoo.start()

    def close(self) -> None:
        self.kazoo.stop()
        self.kazoo.close()


class Kazoo(Peer):
    name, version = "kazoo", version("kazoo")

    def connect(self, uri: str) -> Connection:
        return Connection(uri)

    def wait(self, command: Command, timeout: Optional[float]) -> Optional[Held]:
        client = self.clients[command["client"]]
        share = command.get("share")
        kinds: Dict[Optional[str], Any] = {
            None: client.kazoo.Lock,
            "read": client.kazoo.ReadLock,
            "write": client.kazoo.WriteLock,
        }
        path = f"{client.root}/{command['lock']}"
        if command.get("permits") is not None:
            lock = client.kazoo.Semaphore(path, "kazoo", max_leases=command["permits"])
        else:
            lock = kinds[share](path, "kazoo", extra_lock_patterns=sys.argv[1:])
        try:
            got = lock.acquire(blocking=timeout != 0, timeout=timeout or None)
        except LockTimeout:
            return None
        if not got:
            return None
        held = Held(lock, now(), client.ttl)
        held.units = {None: 1, "read": 1, "write": 1 << 30}[share]  # type: ignore[attr-defined]
        return held

    def release(self, held: Held) -> str:
        return "released" if held.lock.release() else "expired"

    def extend(self, held: Held, ttl: float) -> None:
        raise Failed("unsupported", "it lasts as long as its session")

    def owns(self, held: Held) -> bool:
        return bool(held.lock.is_acquired)


if __name__ == "__main__":
    threading.excepthook = lambda _: None
    Kazoo().main()
