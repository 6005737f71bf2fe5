"""The shim of the command line. The README of this folder's parent says what a shim does.

A guard is a `lockwright run` whose command waits for the end of its input. What only one process can do with a client is
not there.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from typing import Any, Dict, List, Union

Command = Dict[str, Any]
Word = Union[str, bytes]

PROGRAM = sys.argv[1]
RETRYABLE = {"timeout", "lost", "unavailable", "quorum"}
EXIT_CODES = {
    "timeout": 75, "invalid_config": 64, "unsupported": 64, "unavailable": 69, "quorum": 69, "lost": 73,
    "protocol": 76, "foreign_layout": 76, "auth": 77, "internal": 70,
}  # fmt: skip


class Refused(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Shim:
    def __init__(self) -> None:
        self.uris: Dict[str, str] = {}
        self.guards: Dict[str, "subprocess.Popen[bytes]"] = {}
        self.mutex = threading.Lock()

    def say(self, line: Dict[str, Any]) -> None:
        with self.mutex:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    def main(self) -> None:
        self.say({"pid": os.getpid(), "language": "cli"})
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "exit":
                break
            threading.Thread(target=self.answer, args=(command,), daemon=True).start()

    def answer(self, command: Command) -> None:
        try:
            line: Dict[str, Any] = {"ok": getattr(self, "do_" + command["do"])(command)}
        except Refused as error:
            failure = {"code": error.code, "retryable": error.code in RETRYABLE, "message": str(error)}
            line = {"error": failure}
        except Exception as error:
            line = {"error": {"code": type(error).__name__, "retryable": False, "message": str(error)}}
        at = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        self.say({"id": command["id"], "at": at, "peak": peak, **line})

    def start(self, command: Command, words: List[Word]) -> "subprocess.Popen[bytes]":
        line: List[Word] = [PROGRAM, "--url", self.uris[command["client"]], *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe)

    def run(self, command: Command, words: List[Word]) -> str:
        """What it prints, once nobody is left who could print more."""
        process = self.start(command, words)
        out, err = process.communicate()
        if process.returncode:
            raise refusal(process.returncode, err)
        return out.decode()

    def do_open(self, command: Command) -> Command:
        self.uris[command["client"]] = command["uri"]
        return {}

    def do_acquire(self, command: Command) -> Command:
        return self.hold(command, [])

    def do_try(self, command: Command) -> Command:
        if any(key in command for key in ("ttl", "label", "max_hold", "rank", "layout", "format", "share", "permits", "take")):
            return self.hold(command, ["--try"])
        self.run(command, ["try", "--", name(command)])
        return {}

    def hold(self, command: Command, more: List[Word]) -> Command:
        if command.get("share") is not None:
            more.append(f"--{command['share']}")
        for key in ("timeout", "ttl", "max_hold", "at_least_for", "rank", "label", "layout", "format", "permits", "take"):
            if command.get(key) is not None:
                more.append(f"--{key.replace('_', '-')}={command[key]}")
        if command.get("fair"):
            more.append("--fair")
        lock = name(command)
        script = 'echo "$LOCKWRIGHT_TOKEN"; exec cat'
        process = self.start(command, ["run", *more, lock, "--", "sh", "-c", script])
        assert process.stdout is not None
        token = process.stdout.readline()
        if not token:
            _, err = process.communicate()
            raise refusal(process.returncode, err)
        self.guards[command["guard"]] = process
        return {"token": int(token), "depth": 1, "remaining": 0}

    def do_release(self, command: Command) -> Command:
        process = self.guards.pop(command["guard"])
        _, err = process.communicate()
        if process.returncode:
            raise refusal(process.returncode, err)
        return {"outcome": "released"}

    def do_ping(self, command: Command) -> Command:
        seen = json.loads(self.run(command, ["ping", "--json"]))
        return {"took": seen["took_ms"] / 1000, "may_evict": seen["may_evict"]}

    def do_inspect(self, command: Command) -> Command:
        return json.loads(self.run(command, ["inspect", "--json", "--", name(command)]))

    def do_list(self, command: Command) -> Command:
        return {"names": [lock["name"] for lock in json.loads(self.run(command, ["ls", "--json"]))]}

    def do_break(self, command: Command) -> Command:
        self.run(command, ["break", "--token", str(command["token"]), "--", name(command)])
        return {"broken": True}

    def do_close(self, command: Command) -> Command:
        del self.uris[command["client"]]
        return {}


def name(command: Command) -> Word:
    units = command.get("lock_utf16")
    if units is None:
        return command["lock"]
    return "".join(map(chr, units)).encode("utf-8", "surrogatepass")


def refusal(status: int, err: bytes) -> Refused:
    """The error in the one line that says it."""
    lines = err.decode().splitlines()
    errors = [line for line in lines if line.startswith("lockwright: ") and not line.startswith("lockwright: audit:")]
    if len(errors) != 1:
        return Refused("not one line", f"exit code {status}, {lines}")
    message = errors[0].replace("lockwright: ", "", 1)
    code = message.split(": ")[0]
    if EXIT_CODES.get(code, 1) != status:
        return Refused("exit code", f"{status} for {message}")
    return Refused(code, message)


if __name__ == "__main__":
    Shim().main()
