"""A lock that is a value which pymemcache added, as its users write it. It is never renewed."""

from __future__ import annotations

import math
import pathlib
import sys
import time
import uuid
from typing import Any, Optional
from urllib.parse import urlsplit

import pymemcache
from pymemcache.client.base import PooledClient

sys.path.append(str(pathlib.Path(__file__).parents[2] / "shims"))
from python_common import now  # noqa: E402
from python_peer import Failed, Held, Peer  # noqa: E402

POLL = 0.01

class PyMemcache(Peer):
    name, version = "pymemcache", pymemcache.__version__

    def connect(self, uri: str) -> Any:
        address = urlsplit(uri)
        return PooledClient((address.hostname or "", address.port or 11211), allow_unicode_keys=True)

    def acquire(self, client: Any, name: str, ttl: float, timeout: Optional[float]) -> Optional[Held]:
        owner = uuid.uuid4().hex.encode()
        while True:
            asked = now()
            if client.add(name, owner, expire=math.ceil(ttl), noreply=False):
                # A second of the server's may be nearly over when it is counted.
                return Held((client, name, owner), asked, ttl - 1)
            if timeout is not None and timeout <= 0:
                return None
            time.sleep(POLL if timeout is None else min(POLL, timeout))
            timeout = None if timeout is None else timeout - (now() - asked) / 1e9

    def release(self, held: Held) -> str:
        client, name, _ = held.lock
        if not self.owns(held):
            return "stolen"
        return "released" if client.delete(name, noreply=False) else "expired"

    def extend(self, held: Held, ttl: float) -> None:
        client, name, _ = held.lock
        if not self.owns(held) or not client.touch(name, expire=math.ceil(ttl), noreply=False):
            raise Failed("lost", "the value is another one's")

    def owns(self, held: Held) -> bool:
        client, name, owner = held.lock
        return bool(client.get(name) == owner)


if __name__ == "__main__":
    PyMemcache().main()
