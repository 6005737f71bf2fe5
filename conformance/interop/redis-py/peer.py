"""redis-py's own Lock as a peer. It is never renewed."""

from __future__ import annotations

import pathlib
import sys
import time
from typing import Any, Optional
from urllib.parse import urlsplit

import redis
from redis.exceptions import LockNotOwnedError

sys.path.append(str(pathlib.Path(__file__).parents[2] / "shims"))
from python_common import now  # noqa: E402
from python_peer import Failed, Held, Peer  # noqa: E402

POLL = 0.01


class RedisPy(Peer):
    name, version = "redis-py", redis.__version__

    def connect(self, uri: str) -> Any:
        address = urlsplit(uri)
        return redis.Redis(host=address.hostname or "", port=address.port or 6379)

    def acquire(self, client: Any, name: str, ttl: float, timeout: Optional[float]) -> Optional[Held]:
        lock = client.lock(name, timeout=ttl, sleep=POLL, thread_local=False)
        while True:
            asked = now()
            if lock.acquire(blocking=False):
                return Held(lock, asked, ttl)
            if timeout is not None and timeout <= 0:
                return None
            time.sleep(POLL if timeout is None else min(POLL, timeout))
            timeout = None if timeout is None else timeout - (now() - asked) / 1e9

    def release(self, held: Held) -> str:
        try:
            held.lock.release()
        except LockNotOwnedError:
            return "stolen"
        return "released"

    def extend(self, held: Held, ttl: float) -> None:
        try:
            held.lock.extend(ttl, replace_ttl=True)
        except LockNotOwnedError as error:
            raise Failed("lost", str(error)) from error

    def owns(self, held: Held) -> bool:
        return bool(held.lock.owned())


if __name__ == "__main__":
    RedisPy().main()
