"""tooz' own lock on memcached as a peer. It lasts for the coordinator's lock_timeout, and is never renewed here."""

from __future__ import annotations

import pathlib
import sys
import threading
import time
import uuid
from importlib.metadata import version
from typing import Any, Dict, Optional, Tuple
from urllib.parse import urlsplit

from tooz import coordination

sys.path.append(str(pathlib.Path(__file__).parents[2] / "shims"))
from python_common import now  # noqa: E402
from python_peer import TTL, Failed, Held, Peer  # noqa: E402

POLL = 0.01


class Connection:
    """Coordinators, one a thread: none is for several."""

    def __init__(self, uri: str) -> None:
        self.uri = f"memcached://{urlsplit(uri).netloc}?timeout=30&lock_timeout={int(TTL)}"
        self.all: Dict[Tuple[int, int], Any] = {}

    def coordinator(self) -> Any:
        key = (threading.get_ident(), id(threading.current_thread()))
        if key not in self.all:
            self.all[key] = coordination.get_coordinator(self.uri, uuid.uuid4().hex.encode())
            self.all[key].start()
        return self.all[key]

    def close(self) -> None:
        for coordinator in self.all.values():
            coordinator.stop()


class Tooz(Peer):
    name, version = "tooz", version("tooz")

    def connect(self, uri: str) -> Connection:
        return Connection(uri)

    def acquire(self, client: Any, name: str, ttl: float, timeout: Optional[float]) -> Optional[Held]:
        lock = client.coordinator().get_lock(name.encode())
        while True:
            asked = now()
            if lock.acquire(blocking=False):
                return Held(lock, asked, TTL - 1)
            if timeout is not None and timeout <= 0:
                return None
            time.sleep(POLL if timeout is None else min(POLL, timeout))
            timeout = None if timeout is None else timeout - (now() - asked) / 1e9

    def release(self, held: Held) -> str:
        return "released" if held.lock.release() else "expired"

    def extend(self, held: Held, ttl: float) -> None:
        raise Failed("unsupported", "its locks are renewed by their coordinator's heartbeat alone")

    def owns(self, held: Held) -> bool:
        return bool(held.lock.is_still_owner())


if __name__ == "__main__":
    Tooz().main()
