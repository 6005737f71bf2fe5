"""What every shim in Python has, whatever library it plays."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any, Dict, List

Command = Dict[str, Any]

_mutex = threading.Lock()


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def say(line: Dict[str, Any]) -> None:
    with _mutex:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def name_of(command: Command) -> str:
    units = command.get("lock_utf16")
    return command["lock"] if units is None else "".join(map(chr, units))


def passed(arrivals: List[Any]) -> Dict[str, Any]:
    """How a party went on, each time it waited."""
    if None in arrivals:
        return {"passed": False}
    return {"passed": True, "index": arrivals[-1].index, "generations": [arrival.generation for arrival in arrivals]}


class LogFile:
    """What a working task says of itself, and the counter that it raises."""

    def __init__(self, task: str, command: Command) -> None:
        self.task, self.counter, self.command = task, command["counter"], command
        self.units = 1 << 30 if command.get("share") == "write" else command.get("take", 1)
        self.file = os.open(command["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def __enter__(self) -> LogFile:
        return self

    def __exit__(self, *error: Any) -> None:
        os.close(self.file)

    def increment(self, guard: Any, asked: int) -> None:
        at = now()
        self.note(guard, at, event="grant", asked=asked, until=at + int(guard.remaining() * 1e9), units=self.units)
        begin = now()
        value = self.count_up()
        # The guard is asked after the clock: what it still says then was true at that time.
        at = now()
        held, until = guard.is_held, at + int(guard.remaining() * 1e9)
        self.note(guard, at, event="increment", begin=begin, value=value, held=held, until=until)
        why = self.why_lost(guard)
        if why is not None:
            self.note(guard, now(), event="lost", why=why)

    def note(self, guard: Any, at: int, **event: Any) -> None:
        record = {"at": at, "pid": os.getpid(), "task": self.task, "token": self.token_of(guard), **event}
        os.write(self.file, (json.dumps(record) + "\n").encode())

    def token_of(self, guard: Any) -> int:
        return guard.token

    def why_lost(self, guard: Any) -> Any:
        return guard.why_lost

    def count_up(self) -> int:
        """Not atomic in the least, but for the last step: whoever is killed leaves the old value or the new one."""
        try:
            with open(self.counter) as file:
                value = int(file.read()) + 1
        except FileNotFoundError:
            value = 1
        replace(self.counter, self.task, value)
        return value


def replace(file: str, by: str, value: int) -> None:
    with open(f"{file}.{by}", "w") as scratch:
        scratch.write(str(value))
    os.replace(f"{file}.{by}", file)
