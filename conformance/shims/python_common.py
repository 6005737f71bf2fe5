"""What the shims of Python's faces share."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import signal
import time
import warnings
from typing import Any, Callable, Dict, Optional, Tuple, Union

import lockwright
import lockwright.aio

from shim_common import Command, LogFile, name_of, now, passed, replace, say

Guard = Union[lockwright.Guard, lockwright.aio.Guard, lockwright.MultiGuard, lockwright.aio.MultiGuard]

SPANS = ("timeout", "ttl", "max_hold", "at_least_for")
OPTIONS = ("renew", "fair", "rank", "revocable", "label", "layout", "format")


def greet() -> None:
    if os.environ.get("LOCKWRIGHT_SHIM_LOGS"):
        logging.basicConfig(level=logging.DEBUG)
    # Spans are bare numbers in scenarios, and meant so.
    warnings.filterwarnings("ignore", "a ttl of", UserWarning)
    # A shell that starts the runner in the background has it ignore interrupts, and all its children with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The thread by which callbacks are called stays once it was needed: it is there before anything is counted.
    with lockwright.connect("memory://shim") as client, client.lock("x").acquire_guard() as guard:
        guard.on_lost(print)
    say({"pid": os.getpid(), "language": "python", "resets": True})


def say_ok(command: Command, ok: Optional[Dict[str, Any]]) -> None:
    if ok is not None:
        say({"id": command["id"], "at": ok.pop("at", None) or now(), "ok": ok})


def say_error(command: Command, error: BaseException) -> None:
    code = error.code if isinstance(error, lockwright.LockError) else type(error).__name__
    retryable = isinstance(error, lockwright.LockError) and error.retryable
    failure = {"code": code, "retryable": retryable, "message": str(error), "debug": repr(error)}
    say({"id": command["id"], "at": now(), "error": failure})


def say_cancelled(command: Command) -> None:
    error = {"code": "cancelled", "retryable": False, "message": "the runner gave up"}
    say({"id": command["id"], "at": now(), "error": error})


def made_by(client: Any, command: Command) -> Any:
    """The lock, several locks, read/write lock's part or semaphore that a command names, of either face."""
    name, options = name_of(command), options_of(command)
    if command.get("with") is not None:
        return client.multi_lock([*command["with"], name], **options)
    if command.get("permits") is not None:
        return client.semaphore(name, command["permits"], take=command.get("take", 1), **options)
    if command.get("share") is not None:
        return getattr(client.rwlock(name, **options), command["share"])()
    make = client.lock if command.get("owner") is None else client.rlock
    return make(name, **options)


def options_of(command: Command) -> Dict[str, Any]:
    options = {name: command[name] for name in OPTIONS if command.get(name) is not None}
    # What is no number stands there as text, such as nan.
    options.update({name: float(command[name]) for name in SPANS if command.get(name) is not None})
    return options


def asked_of_latch(command: Command) -> Tuple[Any, ...]:
    """What a method of a latch is called with."""
    return tuple(command[name] for name in ("to", "timeout") if command.get(name) is not None)


def seen(inspection: lockwright.Inspection) -> Dict[str, Any]:
    """What an inspection told; JSON has no infinity."""
    told = dataclasses.asdict(inspection)
    parts = told["shared"]["holders"] if told["shared"] is not None else []
    for holder in [told["holder"], *(part["holder"] for part in parts)]:
        if holder is not None:
            holder["remaining"] = min(holder["remaining"], 1e15)
    return told


def what_was_acquired(guard: Guard, command: Command) -> Dict[str, Any]:
    at = now()
    depth = 1 if is_of_several(guard) else guard.depth
    return {"at": at, "token": token_of(guard, command), "depth": depth, "remaining": guard.remaining()}


def is_of_several(guard: Guard) -> bool:
    return isinstance(guard, (lockwright.MultiGuard, lockwright.aio.MultiGuard))


def token_of(guard: Guard, command: Command) -> int:
    """The token, of several locks that of the one that the command names."""
    return guard.tokens[name_of(command)] if is_of_several(guard) else guard.token


def what_was_released(guard: Guard, outcome: str) -> Dict[str, Any]:
    return {"outcome": outcome, "kept": guard.depth - 1} if outcome == "kept" else {"outcome": outcome}


def state_of(guard: Guard) -> Dict[str, Any]:
    state = {"held": guard.is_held, "remaining": guard.remaining(), "why": guard.why_lost}
    if is_of_several(guard):
        return {**state, "why": guard.why_lost and guard.why_lost[1]}
    return {**state, "token": guard.token, "depth": guard.depth}


class Log(LogFile):
    """The same of guards of this library."""

    def token_of(self, guard: Guard) -> int:
        return token_of(guard, self.command)

    def why_lost(self, guard: Guard) -> Any:
        return state_of(guard)["why"]


class Made:
    """The value that jobs make: a number, and whether it is good."""

    def __init__(self, command: Command) -> None:
        self.file, self.made = command["value"], False

    def look(self) -> Optional[Tuple[int, bool]]:
        try:
            with open(self.file) as file:
                number, _, stale = file.read().partition(" ")
        except FileNotFoundError:
            return None
        return int(number), not stale

    def make(self) -> int:
        found = self.look()
        value = 1 if found is None else found[0] + 1
        replace(self.file, "making", value)
        return value


def gate_of(client: Any, command: Command) -> Any:
    """The lock that whoever makes the value takes meanwhile, if any."""
    gate = command.get("gate")
    return None if gate is None else client.lock(gate, **options_of(command))


def shown(leader: Optional[lockwright.Leader]) -> Dict[str, Any]:
    if leader is None:
        return {"leader": None}
    of = {"proclaims": leader.proclaims, "pid": leader.pid, "language": leader.language, "token": leader.token}
    return {"leader": of}


def told(error: Optional[BaseException]) -> Dict[str, Any]:
    """How a child's work ended."""
    return {} if error is None else {"code": getattr(error, "code", ""), "message": str(error)}


class Child:
    """Does `work` in a forked process, and tells what that gives."""

    def __init__(self, work: Callable[[], Dict[str, Any]]) -> None:
        self.reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.write(writer, json.dumps(work()).encode())
            except BaseException as error:
                os.write(writer, json.dumps({"code": repr(error)}).encode())
            finally:
                os._exit(0)
        os.close(writer)

    def wait(self, patience: float) -> Dict[str, Any]:
        give_up = time.monotonic() + patience
        while True:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                break
            if time.monotonic() > give_up:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return {"hangs": True}
            time.sleep(0.001)
        with open(self.reader) as file:
            return {**json.loads(file.read() or "{}"), "status": status}
