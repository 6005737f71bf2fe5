"""python-redis-lock as a peer: waits by BLPOP. Its spans are whole seconds, so those of a scenario are rounded up."""

from __future__ import annotations

import math
import pathlib
import sys
import time
from typing import Any, Dict, Optional
from urllib.parse import urlsplit

import redis
import redis_lock

sys.path.append(str(pathlib.Path(__file__).parents[2] / "shims"))
from python_common import Command, now  # noqa: E402
from python_peer import Failed, Held, Peer  # noqa: E402

# For how long at most it waits for a signal, in seconds: when a lease ends by itself, there is none.
LOOK = 1


class PythonRedisLock(Peer):
    name, version = "python-redis-lock", redis_lock.__version__

    def connect(self, uri: str) -> Any:
        address = urlsplit(uri)
        return redis.StrictRedis(host=address.hostname or "", port=address.port or 6379)

    def acquire(self, client: Any, name: str, ttl: float, timeout: Optional[float]) -> Optional[Held]:
        whole = max(1, math.ceil(ttl))
        lock = redis_lock.Lock(client, name, expire=whole)
        give_up = None if timeout is None else time.monotonic() + timeout
        while True:
            left = math.inf if give_up is None else give_up - time.monotonic()
            if left < LOOK:
                time.sleep(max(0.0, left))
            asked = now()
            if lock.acquire(blocking=left >= LOOK, timeout=LOOK if left >= LOOK else None):
                # What was waited for is over: the lease counts from when it was had, and a little before.
                return Held(lock, asked if left < LOOK else self.begun(client, lock, whole), whole)
            if left < LOOK:
                return None

    def begun(self, client: Any, lock: Any, whole: int) -> int:
        """When a lease began that was asked for again and again, by what is left of it."""
        at, left = now(), client.pttl(lock._name)
        return at - int((whole * 1000 - left) * 1e6)

    def release(self, held: Held) -> str:
        try:
            held.lock.release()
        except redis_lock.NotAcquired:
            return "stolen"
        return "released"

    def extend(self, held: Held, ttl: float) -> None:
        try:
            held.lock.extend(expire=math.ceil(ttl))
        except redis_lock.NotAcquired as error:
            raise Failed("lost", str(error)) from error

    def owns(self, held: Held) -> bool:
        return bool(held.lock.get_owner_id() == held.lock.id)

    def do_break(self, command: Command) -> Dict[str, Any]:
        redis_lock.Lock(self.clients[command["client"]], command["lock"]).reset()
        return {"broken": True}


if __name__ == "__main__":
    PythonRedisLock().main()
