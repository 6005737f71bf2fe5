"""redis-py's own Lock as a peer: it obeys those commands of a shim that this library can obey.

`conformance/README.md` says what they are. A lock of redis-py has no token, so 0 stands for it, and it is never renewed.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import threading
import time
from typing import Any, Dict, Optional
from urllib.parse import urlsplit

import redis
from redis.exceptions import LockNotOwnedError

sys.path.append(str(pathlib.Path(__file__).parents[2] / "shims"))
from python_common import Command, Log, now, say  # noqa: E402

POLL = 0.01
TTL = 30.0


class Failed(Exception):
    def __init__(self, code: str, message: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.code, self.retryable = code, retryable


class Held:
    """One hold, and until when it lasts."""

    token, depth, why_lost = 0, 1, None

    def __init__(self, lock: Any, asked: int, ttl: float) -> None:
        self.lock, self.until = lock, asked + int(ttl * 1e9)

    def remaining(self) -> float:
        return max(0.0, (self.until - now()) / 1e9)

    @property
    def is_held(self) -> bool:
        return now() < self.until


class Peer:
    def __init__(self) -> None:
        self.clients: Dict[str, redis.Redis] = {}
        self.held: Dict[str, Held] = {}

    def main(self) -> None:
        say({"pid": os.getpid(), "language": "redis-py"})
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "exit":
                break
            threading.Thread(target=self.answer, args=(command,), daemon=True).start()

    def answer(self, command: Command) -> None:
        try:
            ok = getattr(self, "do_" + command["do"])(command)
            say({"id": command["id"], "at": now(), "ok": ok})
        except Exception as error:
            code, retryable = getattr(error, "code", type(error).__name__), getattr(error, "retryable", False)
            failure = {"code": code, "retryable": retryable, "message": str(error)}
            say({"id": command["id"], "at": now(), "error": failure})

    def do_open(self, command: Command) -> Dict[str, Any]:
        address = urlsplit(command["uri"])
        self.clients[command["client"]] = redis.Redis(host=address.hostname or "", port=address.port or 6379)
        return {}

    def acquire(self, command: Command, timeout: Optional[float]) -> Optional[Held]:
        ttl, client = command.get("ttl", TTL), self.clients[command["client"]]
        lock = client.lock(command["lock"], timeout=ttl, sleep=POLL, thread_local=False)
        while True:
            asked = now()
            if lock.acquire(blocking=False):
                return Held(lock, asked, ttl)
            if timeout is not None and timeout <= 0:
                return None
            pause = POLL if timeout is None else min(POLL, timeout)
            time.sleep(pause)
            timeout = None if timeout is None else timeout - (now() - asked) / 1e9

    def keep(self, command: Command, held: Held) -> Dict[str, Any]:
        self.held[command["guard"]] = held
        return {"token": 0, "depth": 1, "remaining": held.remaining()}

    def do_acquire(self, command: Command) -> Dict[str, Any]:
        held = self.acquire(command, command.get("timeout"))
        if held is None:
            raise Failed("timeout", "redis-py did not get the lock in time", retryable=True)
        return self.keep(command, held)

    def do_try(self, command: Command) -> Dict[str, Any]:
        held = self.acquire(command, 0)
        return {"taken": True} if held is None else self.keep(command, held)

    def release(self, held: Held) -> str:
        try:
            held.lock.release()
        except LockNotOwnedError:
            return "stolen"
        return "released"

    def do_release(self, command: Command) -> Dict[str, Any]:
        return {"outcome": self.release(self.held.pop(command["guard"]))}

    def do_extend(self, command: Command) -> Dict[str, Any]:
        held, asked = self.held[command["guard"]], now()
        try:
            held.lock.extend(command["ttl"], replace_ttl=True)
        except LockNotOwnedError as error:
            raise Failed("lost", str(error)) from error
        held.until = asked + int(command["ttl"] * 1e9)
        return {}

    def do_state(self, command: Command) -> Dict[str, Any]:
        held = self.held[command["guard"]]
        return {"held": held.lock.owned(), "remaining": held.remaining(), "why": None, "token": 0, "depth": 1}

    def do_work(self, command: Command) -> Dict[str, Any]:
        tasks = [Task(self, f"{command['name']}-{i}", command) for i in range(command["tasks"])]
        for task in tasks:
            task.start()
        for task in tasks:
            task.join()
        for task in tasks:
            if task.error is not None:
                raise task.error
        return {}


class Task(threading.Thread):
    """Counts up under the lock, and logs it as a shim's `work` does."""

    def __init__(self, peer: Peer, name: str, command: Command) -> None:
        super().__init__(daemon=True)
        self.peer, self.command, self.log = peer, command, Log(name, command)
        self.error: Optional[Exception] = None

    def run(self) -> None:
        try:
            for _ in range(self.command["increments"]):
                asked = now()
                held = self.peer.acquire(self.command, None)
                assert held is not None
                self.log.increment(held, asked)
                outcome = self.peer.release(held)
                self.log.note(held, now(), event="released", outcome=outcome)
        except Exception as error:
            self.error = error


if __name__ == "__main__":
    Peer().main()
