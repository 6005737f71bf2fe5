"""redis-py's own Lock as a peer: it obeys those commands of a shim that this library can obey.

`conformance/README.md` says what they are. A lock of redis-py has no token, so 0 stands for it, and it is never renewed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any, Dict, Optional
from urllib.parse import urlsplit

import redis
from redis.exceptions import LockNotOwnedError

Command = Dict[str, Any]
POLL = 0.01
TTL = 30.0


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Failed(Exception):
    def __init__(self, code: str, message: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.code, self.retryable = code, retryable


class Held:
    """One hold, and until when it lasts."""

    def __init__(self, lock: Any, asked: int, ttl: float) -> None:
        self.lock, self.until = lock, asked + int(ttl * 1e9)

    def remaining(self) -> float:
        return max(0.0, (self.until - now()) / 1e9)


class Peer:
    def __init__(self) -> None:
        self.clients: Dict[str, redis.Redis] = {}
        self.held: Dict[str, Held] = {}
        self.mutex = threading.Lock()

    def say(self, line: Dict[str, Any]) -> None:
        with self.mutex:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    def main(self) -> None:
        self.say({"pid": os.getpid(), "language": "redis-py"})
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "exit":
                break
            threading.Thread(target=self.answer, args=(command,), daemon=True).start()

    def answer(self, command: Command) -> None:
        try:
            ok = getattr(self, "do_" + command["do"])(command)
            self.say({"id": command["id"], "at": now(), "ok": ok})
        except Exception as error:
            code, retryable = getattr(error, "code", type(error).__name__), getattr(error, "retryable", False)
            failure = {"code": code, "retryable": retryable, "message": str(error)}
            self.say({"id": command["id"], "at": now(), "error": failure})

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
        log = os.open(command["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        tasks = [Task(self, f"{command['name']}-{i}", command, log) for i in range(command["tasks"])]
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

    def __init__(self, peer: Peer, name: str, command: Command, log: int) -> None:
        super().__init__(daemon=True)
        self.peer, self.task, self.command, self.log = peer, name, command, log
        self.error: Optional[Exception] = None

    def run(self) -> None:
        try:
            for _ in range(self.command["increments"]):
                self.increment()
        except Exception as error:
            self.error = error

    def increment(self) -> None:
        asked = now()
        held = self.peer.acquire(self.command, None)
        assert held is not None
        self.note(now(), event="grant", asked=asked, until=held.until)
        begin, value = now(), self.count_up()
        at = now()
        self.note(at, event="increment", begin=begin, value=value, held=at < held.until, until=held.until)
        outcome = self.peer.release(held)
        self.note(now(), event="released", outcome=outcome)

    def note(self, at: int, **event: Any) -> None:
        record = {"at": at, "pid": os.getpid(), "task": self.task, "token": 0, **event}
        os.write(self.log, (json.dumps(record) + "\n").encode())

    def count_up(self) -> int:
        counter = self.command["counter"]
        try:
            with open(counter) as file:
                value = int(file.read()) + 1
        except FileNotFoundError:
            value = 1
        with open(f"{counter}.{self.task}", "w") as file:
            file.write(str(value))
        os.replace(f"{counter}.{self.task}", counter)
        return value


if __name__ == "__main__":
    Peer().main()
