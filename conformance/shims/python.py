"""The shim of the Python face. The README of this folder's parent says what a shim does."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import queue
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional

import lockwright

Command = Dict[str, Any]


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Shim:
    def __init__(self) -> None:
        self.clients: Dict[str, lockwright.Client] = {}
        self.uris: Dict[str, str] = {}
        self.guards: Dict[str, lockwright.Guard] = {}
        self.owners: Dict[int, "queue.SimpleQueue[Command]"] = {}
        self.interruptible: "queue.SimpleQueue[Optional[Command]]" = queue.SimpleQueue()
        self.interrupting: Optional[int] = None
        self.given_up: set[int] = set()
        self.mutex = threading.Lock()

    def say(self, line: Dict[str, Any]) -> None:
        with self.mutex:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    def read(self) -> None:
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "exit":
                break
            self.dispatch(command)
        self.interruptible.put(None)

    def dispatch(self, command: Command) -> None:
        owner = command.get("owner")
        if command.get("cancellable"):
            self.interruptible.put(command)
        elif owner is None:
            threading.Thread(target=self.answer, args=(command,), daemon=True).start()
        else:
            # An owner is a thread here.
            if owner not in self.owners:
                self.owners[owner] = queue.SimpleQueue()
                threading.Thread(target=self.serve, args=(self.owners[owner],), daemon=True).start()
            self.owners[owner].put(command)

    def serve(self, commands: "queue.SimpleQueue[Command]") -> None:
        while True:
            self.answer(commands.get())

    def main(self) -> None:
        """Python interrupts its main thread only, so what may be cancelled is done there."""
        # A shell that starts the runner in the background has it ignore interrupts, and all its children with it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.say({"pid": os.getpid(), "language": "python"})
        threading.Thread(target=self.read, daemon=True).start()
        while True:
            try:
                command = self.interruptible.get()
                if command is None:
                    return
                self.interrupting = command["id"]
                if command["id"] not in self.given_up:
                    self.answer(command)
                    self.interrupting = None
                    continue
            except KeyboardInterrupt:
                if self.interrupting is None:
                    continue
            self.interrupting = None
            error = {"code": "cancelled", "retryable": False, "message": "the runner gave up"}
            self.say({"id": command["id"], "at": now(), "error": error})

    def do_cancel(self, command: Command) -> Dict[str, Any]:
        self.given_up.add(command["command"])
        if self.interrupting == command["command"]:
            os.kill(os.getpid(), signal.SIGINT)
        return {}

    def answer(self, command: Command) -> None:
        try:
            ok = getattr(self, "do_" + command["do"])(command)
        except lockwright.LockError as error:
            failure = {"code": error.code, "retryable": error.retryable, "message": str(error), "debug": repr(error)}
            self.say({"id": command["id"], "at": now(), "error": failure})
        except Exception as error:
            failure = {"code": type(error).__name__, "retryable": False, "message": str(error)}
            self.say({"id": command["id"], "at": now(), "error": failure})
        else:
            if ok is not None:
                self.say({"id": command["id"], "at": ok.pop("at", None) or now(), "ok": ok})

    def client(self, command: Command) -> lockwright.Client:
        return self.clients[command["client"]]

    def own_client(self, command: Command, i: int) -> lockwright.Client:
        name = f"{command['client']}/{i}"
        if name not in self.clients:
            self.clients[name] = lockwright.connect(self.uris[command["client"]])
        return self.clients[name]

    def do_open(self, command: Command) -> Dict[str, Any]:
        self.clients[command["client"]] = lockwright.connect(command["uri"])
        self.uris[command["client"]] = command["uri"]
        return {"shown": repr(self.clients[command["client"]])}

    def do_guarantees(self, command: Command) -> Dict[str, Any]:
        return dataclasses.asdict(self.client(command).guarantees())

    def do_acquire(self, command: Command) -> Dict[str, Any]:
        return self.keep(command, lock_of(self.client(command), command).acquire_guard())

    def do_try(self, command: Command) -> Dict[str, Any]:
        guard = lock_of(self.client(command), command).try_acquire()
        return {"taken": True} if guard is None else self.keep(command, guard)

    def keep(self, command: Command, guard: lockwright.Guard) -> Dict[str, Any]:
        at = now()
        self.guards[command["guard"]] = guard
        return {"at": at, "token": guard.token, "depth": guard.depth, "remaining": guard.remaining()}

    def do_release(self, command: Command) -> Dict[str, Any]:
        guard = self.guards[command["guard"]]
        depth = guard.depth
        outcome = guard.release()
        return {"outcome": outcome, "kept": depth - 1} if outcome == "kept" else {"outcome": outcome}

    def do_extend(self, command: Command) -> Dict[str, Any]:
        self.guards[command["guard"]].extend(command["ttl"])
        return {}

    def do_state(self, command: Command) -> Dict[str, Any]:
        guard = self.guards[command["guard"]]
        state = {"held": guard.is_held, "remaining": guard.remaining(), "why": guard.why_lost}
        return {**state, "token": guard.token, "depth": guard.depth}

    def do_lost(self, command: Command) -> Optional[Dict[str, Any]]:
        guard = self.guards[command["guard"]]
        return {"why": guard.why_lost} if guard.lost.wait() else None

    def do_abandon(self, command: Command) -> Dict[str, Any]:
        del self.guards[command["guard"]]
        return {}

    def do_inspect(self, command: Command) -> Dict[str, Any]:
        return dataclasses.asdict(self.client(command).inspect(name_of(command)))

    def do_list(self, command: Command) -> Dict[str, Any]:
        return {"names": self.client(command).list()}

    def do_break(self, command: Command) -> Dict[str, Any]:
        return {"broken": self.client(command).break_lock(name_of(command), command["token"])}

    def do_close(self, command: Command) -> Dict[str, Any]:
        self.client(command).close()
        return {}

    def do_fork(self, command: Command) -> Dict[str, Any]:
        client, stop = self.client(command), threading.Event()
        if command.get("busy"):
            for i in range(2):
                lock = client.lock(f"{command['lock']}.busy-{i}")
                threading.Thread(target=keep_busy, args=(lock, stop), daemon=True).start()
        lock, guard = lock_of(client, command), self.guards[command["guard"]]
        children = []
        for i in range(command.get("times", 1)):
            other = client.lock(f"{command['other']}-{i}")
            children.append(Child(lambda: tell(lock, other, guard)).wait(20))
        stop.set()
        return {"children": children}

    def do_prefork(self, command: Command) -> Dict[str, Any]:
        log, lock = open_log(command), lock_of(self.client(command), command)
        tasks = [Task(f"{command['name']}-child-{i}", lock, command, log) for i in range(command["children"])]
        children = [Child(task.tell) for task in tasks]
        return {"children": [child.wait(60) for child in children]}

    def do_work(self, command: Command) -> Dict[str, Any]:
        log = open_log(command)
        tasks = []
        for i in range(command["tasks"]):
            client = self.own_client(command, i) if command.get("own_clients") else self.client(command)
            tasks.append(Task(f"{command['name']}-{i}", lock_of(client, command), command, log))
        for task in tasks:
            task.start()
        for task in tasks:
            task.join()
        for task in tasks:
            if task.error is not None:
                raise task.error
        return {"retries": sum((task.retries for task in tasks), [])}


def lock_of(client: lockwright.Client, command: Command) -> lockwright.Lock:
    names = ("renew", "fair", "label", "layout")
    options = {name: command[name] for name in names if command.get(name) is not None}
    spans = ("timeout", "ttl", "max_hold")
    options.update({name: float(command[name]) for name in spans if command.get(name) is not None})
    make = client.lock if command.get("owner") is None else client.rlock
    return make(name_of(command), **options)


def name_of(command: Command) -> str:
    units = command.get("lock_utf16")
    return command["lock"] if units is None else "".join(map(chr, units))


def open_log(command: Command) -> int:
    return os.open(command["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)


class Task(threading.Thread):
    def __init__(self, name: str, lock: lockwright.Lock, command: Command, log: int) -> None:
        super().__init__(daemon=True)
        self.task, self.lock, self.command, self.log = name, lock, command, log
        self.retries: List[str] = []
        self.error: Optional[Exception] = None

    def run(self) -> None:
        for _ in range(self.command["increments"]):
            while True:
                try:
                    self.increment()
                    break
                except lockwright.LockError as error:
                    if not error.retryable:
                        self.error = error
                        return
                    self.retries.append(error.code)
                except Exception as error:
                    self.error = error
                    return

    def tell(self) -> Dict[str, Any]:
        self.run()
        return {} if self.error is None else {"code": getattr(self.error, "code", ""), "message": str(self.error)}

    def increment(self) -> None:
        asked = now()
        guard = self.lock.acquire_guard()
        at = now()
        self.note(guard, at, event="grant", asked=asked, until=at + int(guard.remaining() * 1e9))
        begin = now()
        value = self.count_up()
        # The guard is asked after the clock: what it still says then was true at that time.
        at = now()
        held, until = guard.is_held, at + int(guard.remaining() * 1e9)
        self.note(guard, at, event="increment", begin=begin, value=value, held=held, until=until)
        if guard.why_lost is not None:
            self.note(guard, now(), event="lost", why=guard.why_lost)
        outcome = guard.release()
        self.note(guard, now(), event="released", outcome=outcome)

    def note(self, guard: lockwright.Guard, at: int, **event: Any) -> None:
        record = {"at": at, "pid": os.getpid(), "task": self.task, "token": guard.token, **event}
        os.write(self.log, (json.dumps(record) + "\n").encode())

    def count_up(self) -> int:
        """Not atomic in the least, but for the last step: whoever is killed leaves the old value or the new one."""
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


def keep_busy(lock: lockwright.Lock, stop: threading.Event) -> None:
    while not stop.is_set():
        with lock:
            pass


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


def tell(lock: lockwright.Lock, other: lockwright.Lock, guard: lockwright.Guard) -> Dict[str, Any]:
    """What a child finds."""
    parents = code_of(lambda: "taken" if lock.try_acquire() is None else "granted")
    own = code_of(lambda: other.acquire_guard().release())
    return {"parents": parents, "own": own, "held": guard.is_held, "guard": code_of(guard.release)}


def code_of(call: Callable[[], str]) -> str:
    try:
        return call()
    except lockwright.LockError as error:
        return error.code


if __name__ == "__main__":
    if os.environ.get("LOCKWRIGHT_SHIM_LOGS"):
        logging.basicConfig(level=logging.DEBUG)
    Shim().main()
