"""What programs share that play another Python library: the commands of a shim that such a library can obey.

`conformance/README.md` says what they are. A lock of another library has no token, so 0 stands for it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from python_common import Command, Log, now, say

TTL = 30.0


class Failed(Exception):
    def __init__(self, code: str, message: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.code, self.retryable = code, retryable


def polled(take: Callable[[], bool], timeout: Optional[float], pause: float) -> bool:
    """Tries again and again, for as long as it takes where there is no timeout; whether it was had in time."""
    give_up = None if timeout is None else time.monotonic() + timeout
    while not take():
        if give_up is not None and time.monotonic() >= give_up:
            return False
        time.sleep(pause)
    return True


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
    """A library's own class says how to connect, acquire, release, extend and ask whether a lock is still its own."""

    name, version = "", ""

    def __init__(self) -> None:
        self.clients: Dict[str, Any] = {}
        self.held: Dict[str, Held] = {}
        self.threads: List[threading.Thread] = []

    def connect(self, uri: str) -> Any:
        raise NotImplementedError

    def acquire(self, client: Any, name: str, ttl: float, timeout: Optional[float]) -> Optional[Held]:
        """Waits for as long as it takes where there is no timeout; none when it is over."""
        raise NotImplementedError

    def release(self, held: Held) -> str:
        raise NotImplementedError

    def extend(self, held: Held, ttl: float) -> None:
        raise NotImplementedError

    def owns(self, held: Held) -> bool:
        raise NotImplementedError

    def main(self) -> None:
        say({"pid": os.getpid(), "language": self.name, "version": self.version, "resets": True})
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "exit":
                break
            self.threads.append(threading.Thread(target=self.answer, args=(command,), daemon=True))
            self.threads[-1].start()

    def answer(self, command: Command) -> None:
        try:
            ok = getattr(self, "do_" + command["do"])(command)
            say({"id": command["id"], "at": now(), "ok": ok})
        except Exception as error:
            code, retryable = getattr(error, "code", type(error).__name__), getattr(error, "retryable", False)
            failure = {"code": code, "retryable": retryable, "message": str(error)}
            say({"id": command["id"], "at": now(), "error": failure})

    def do_open(self, command: Command) -> Dict[str, Any]:
        self.clients[command["client"]] = self.connect(command["uri"])
        return {}

    def do_reset(self, command: Command) -> Dict[str, Any]:
        """Ends all that is in hand, and has nothing any more but the process itself."""
        for client in self.clients.values():
            client.close()
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join()
        self.threads = [threading.current_thread()]
        self.clients.clear()
        self.held.clear()
        return {}

    def wait(self, command: Command, timeout: Optional[float]) -> Optional[Held]:
        return self.acquire(self.clients[command["client"]], command["lock"], command.get("ttl", TTL), timeout)

    def keep(self, command: Command, held: Held) -> Dict[str, Any]:
        self.held[command["guard"]] = held
        return {"token": 0, "depth": 1, "remaining": held.remaining()}

    def do_acquire(self, command: Command) -> Dict[str, Any]:
        held = self.wait(command, command.get("timeout"))
        if held is None:
            raise Failed("timeout", f"{self.name} did not get the lock in time", retryable=True)
        return self.keep(command, held)

    def do_try(self, command: Command) -> Dict[str, Any]:
        held = self.wait(command, 0)
        return {"taken": True} if held is None else self.keep(command, held)

    def do_release(self, command: Command) -> Dict[str, Any]:
        return {"outcome": self.release(self.held.pop(command["guard"]))}

    def do_extend(self, command: Command) -> Dict[str, Any]:
        held, asked = self.held[command["guard"]], now()
        self.extend(held, command["ttl"])
        held.until = asked + int(command["ttl"] * 1e9)
        return {}

    def do_state(self, command: Command) -> Dict[str, Any]:
        held = self.held[command["guard"]]
        return {"held": self.owns(held), "remaining": held.remaining(), "why": None, "token": 0, "depth": 1}

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
            with self.log:
                self.work()
        except Exception as error:
            self.error = error

    def work(self) -> None:
        for _ in range(self.command["increments"]):
            asked = now()
            held = self.peer.wait(self.command, None)
            assert held is not None
            self.log.increment(held, asked)
            outcome = self.peer.release(held)
            self.log.note(held, now(), event="released", outcome=outcome)
