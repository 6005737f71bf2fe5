"""The shim of the Python face. The README of this folder's parent says what a shim does."""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import signal
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

import lockwright

from python_common import (
    Child,
    Command,
    Guard,
    Log,
    Made,
    asked_of_latch,
    gate_of,
    greet,
    made_by,
    name_of,
    passed,
    seen,
    now,
    options_of,
    say_cancelled,
    say_error,
    say_ok,
    shown,
    state_of,
    told,
    what_was_acquired,
    what_was_released,
)


class Shim:
    def __init__(self) -> None:
        self.clients: Dict[str, lockwright.Client] = {}
        self.uris: Dict[str, str] = {}
        self.guards: Dict[str, Guard] = {}
        self.stocks: Dict[Tuple[str, str, int], lockwright.Striped] = {}
        self.segments: Dict[str, lockwright.Segment] = {}
        self.owners: Dict[int, "queue.SimpleQueue[Optional[Command]]"] = {}
        self.threads: List[threading.Thread] = []
        self.interruptible: "queue.SimpleQueue[Optional[Command]]" = queue.SimpleQueue()
        self.interrupting: Optional[int] = None
        self.given_up: set[int] = set()

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
            self.start(self.answer, command)
        else:
            # An owner is a thread here.
            if owner not in self.owners:
                self.owners[owner] = queue.SimpleQueue()
                self.start(self.serve, self.owners[owner])
            self.owners[owner].put(command)

    def start(self, work: Callable[..., None], *args: Any) -> None:
        self.threads.append(threading.Thread(target=work, args=args, daemon=True))
        self.threads[-1].start()

    def serve(self, commands: "queue.SimpleQueue[Optional[Command]]") -> None:
        for command in iter(commands.get, None):
            self.answer(command)

    def main(self) -> None:
        """Python interrupts its main thread only, so what may be cancelled is done there."""
        greet()
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
            say_cancelled(command)

    def do_cancel(self, command: Command) -> Dict[str, Any]:
        self.given_up.add(command["command"])
        if self.interrupting == command["command"]:
            os.kill(os.getpid(), signal.SIGINT)
        return {}

    def answer(self, command: Command) -> None:
        try:
            ok = getattr(self, "do_" + command["do"])(command)
        except Exception as error:
            say_error(command, error)
        else:
            say_ok(command, ok)

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

    def do_require(self, command: Command) -> Dict[str, Any]:
        self.client(command).require(**dict.fromkeys(command["wants"], True))
        return {}

    def do_acquire(self, command: Command) -> Dict[str, Any]:
        return self.keep(command, lock_of(self.client(command), command).acquire_guard())

    def do_try(self, command: Command) -> Dict[str, Any]:
        guard = lock_of(self.client(command), command).try_acquire()
        return {"taken": True} if guard is None else self.keep(command, guard)

    def keep(self, command: Command, guard: Guard) -> Dict[str, Any]:
        self.guards[command["guard"]] = guard
        return what_was_acquired(guard, command)

    def do_release(self, command: Command) -> Dict[str, Any]:
        guard = self.guards[command["guard"]]
        return what_was_released(guard, guard.release())

    def do_extend(self, command: Command) -> Dict[str, Any]:
        self.guards[command["guard"]].extend(command["ttl"])
        return {}

    def do_downgrade(self, command: Command) -> Dict[str, Any]:
        self.guards[command["guard"]].downgrade()
        return {}

    def do_upgrade(self, command: Command) -> Dict[str, Any]:
        return {"upgraded": self.guards[command["guard"]].try_upgrade()}

    def do_resize(self, command: Command) -> Dict[str, Any]:
        self.client(command).semaphore(name_of(command), 1).resize(command["permits"])
        return {}

    def do_export(self, command: Command) -> Dict[str, Any]:
        return {"secret": self.guards[command["guard"]].export(command["ttl"])}

    def do_resume(self, command: Command) -> Dict[str, Any]:
        client, secret = self.client(command), command["secret"]
        if command.get("lock") is None:
            return self.keep(command, client.resume(secret, **options_of(command)))
        return self.keep(command, lock_of(client, command).resume(secret))

    def do_hold_at_least_for(self, command: Command) -> Dict[str, Any]:
        self.guards[command["guard"]].hold_at_least_for(command["span"])
        return {}

    def do_ping(self, command: Command) -> Dict[str, Any]:
        health = self.client(command).ping()
        return {"took": health.took, "may_evict": health.may_evict}

    def do_drain(self, command: Command) -> Dict[str, Any]:
        return {"held": self.client(command).drain(command["limit"])}

    def do_count(self, command: Command) -> Dict[str, Any]:
        with Log(command["name"], command) as log:
            log.increment(self.guards[command["guard"]], command["asked"])
        return {}

    def striped(self, command: Command) -> lockwright.Striped:
        """The same one for each command: what is sold out is known to it alone."""
        key = command["client"], command["lock"], command["segments"]
        if key not in self.stocks:
            self.stocks[key] = self.client(command).striped(command["lock"], command["segments"], **options_of(command))
        return self.stocks[key]

    def do_segment(self, command: Command) -> Dict[str, Any]:
        striped, key = self.striped(command), command.get("key")
        if key is not None:
            guard = striped.for_key(key).acquire_guard()
            return {**self.keep(command, guard), "index": striped.index_for(key)}
        segment = striped.any(command.get("timeout"))
        if segment is None:
            return {"none": True}
        self.segments[command["guard"]] = segment
        return {**self.keep(command, segment.guard), "index": segment.index}

    def do_sold_out(self, command: Command) -> Dict[str, Any]:
        return {"outcome": self.segments.pop(command["guard"]).sold_out()}

    def do_restock(self, command: Command) -> Dict[str, Any]:
        self.striped(command).restock()
        return {}

    def do_once(self, command: Command) -> Dict[str, Any]:
        client, made = self.client(command), Made(command)
        gate = gate_of(client, command)

        def make(token: int) -> int:
            made.made = True
            if gate is not None:
                with gate:
                    pass
            return made.make()

        once = client.once(command["lock"], made.look, make, waits=bool(command.get("waits")), **options_of(command))
        return {"value": once.get(), "made": made.made}

    def election(self, command: Command) -> lockwright.Election:
        return self.client(command).election(command["lock"], **options_of(command))

    def do_campaign(self, command: Command) -> Dict[str, Any]:
        return self.keep(command, self.election(command).campaign(command["proclaims"]))

    def do_lead(self, command: Command) -> Dict[str, Any]:
        gate, reigns = self.client(command).lock(command["gate"]), []

        def work(guard: lockwright.Guard) -> int:
            reigns.append(guard.token)
            while guard.is_held:
                if gate.acquire(timeout=1):
                    gate.release()
                    break
            return guard.token

        return {"token": self.election(command).run(command["proclaims"], work), "reigns": len(reigns)}

    def do_latch(self, command: Command) -> Dict[str, Any]:
        latch = self.client(command).latch(command["lock"], command["count"])
        return {"answer": getattr(latch, command["asks"])(*asked_of_latch(command))}

    def do_barrier(self, command: Command) -> Dict[str, Any]:
        barrier = self.client(command).barrier(command["lock"], command["parties"], ttl=command.get("ttl"))
        if command["asks"] == "waiting":
            return {"waiting": barrier.waiting()}
        return passed([barrier.wait(command.get("timeout")) for _ in range(command.get("times") or 1)])

    def do_leader(self, command: Command) -> Dict[str, Any]:
        return shown(self.election(command).leader())

    def do_changed(self, command: Command) -> Dict[str, Any]:
        return shown(self.election(command).changed(command.get("known"), command["every"]))

    def do_state(self, command: Command) -> Dict[str, Any]:
        return state_of(self.guards[command["guard"]])

    def do_lost(self, command: Command) -> Optional[Dict[str, Any]]:
        guard = self.guards[command["guard"]]
        return {"why": guard.why_lost} if guard.lost.wait() else None

    def do_abandon(self, command: Command) -> Dict[str, Any]:
        del self.guards[command["guard"]]
        return {}

    def do_inspect(self, command: Command) -> Dict[str, Any]:
        return seen(self.client(command).inspect(name_of(command)))

    def do_list(self, command: Command) -> Dict[str, Any]:
        return {"names": self.client(command).list()}

    def do_break(self, command: Command) -> Dict[str, Any]:
        return {"broken": self.client(command).break_lock(name_of(command), command["token"])}

    def do_request_release(self, command: Command) -> Dict[str, Any]:
        return {"asked": lock_of(self.client(command), command).request_release(command["token"])}

    def do_requested(self, command: Command) -> Dict[str, Any]:
        asked = threading.Event()
        self.guards[command["guard"]].on_release_requested(asked.set)
        asked.wait()
        return {"requested": self.guards[command["guard"]].release_requested}

    def do_close(self, command: Command) -> Dict[str, Any]:
        self.client(command).close()
        return {}

    def do_reset(self, command: Command) -> Dict[str, Any]:
        """Ends all that is in hand, and has nothing any more but the process itself."""
        for client in list(self.clients.values()):
            client.close()
        through = threading.Event()
        self.interruptible.put({"do": "nothing", "id": command["id"], "then": through.set})
        through.wait()
        for owner in self.owners.values():
            owner.put(None)
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join()
        for kept in (self.clients, self.uris, self.guards, self.stocks, self.segments, self.owners, self.given_up):
            kept.clear()
        self.threads = [threading.current_thread()]
        return {}

    def do_nothing(self, command: Command) -> None:
        command["then"]()

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
        lock = lock_of(self.client(command), command)
        tasks = [Task(f"{command['name']}-child-{i}", lock, command) for i in range(command["children"])]
        children = [Child(task.tell) for task in tasks]
        return {"children": [child.wait(60) for child in children]}

    def do_work(self, command: Command) -> Dict[str, Any]:
        tasks = []
        for i in range(command["tasks"]):
            client = self.own_client(command, i) if command.get("own_clients") else self.client(command)
            tasks.append(Task(f"{command['name']}-{i}", lock_of(client, command), command))
        for task in tasks:
            task.start()
        for task in tasks:
            task.join()
        for task in tasks:
            if task.error is not None:
                raise task.error
        return {"retries": sum((task.retries for task in tasks), [])}


def lock_of(client: lockwright.Client, command: Command) -> lockwright.Lock:
    lock: lockwright.Lock = made_by(client, command)
    return lock


class Task(threading.Thread):
    def __init__(self, name: str, lock: lockwright.Lock, command: Command) -> None:
        super().__init__(daemon=True)
        self.lock, self.increments, self.log = lock, command["increments"], Log(name, command)
        self.retries: List[str] = []
        self.error: Optional[Exception] = None

    def run(self) -> None:
        with self.log:
            self.work()

    def work(self) -> None:
        for _ in range(self.increments):
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
        return told(self.error)

    def increment(self) -> None:
        asked = now()
        guard = self.lock.acquire_guard()
        self.log.increment(guard, asked)
        outcome = guard.release()
        self.log.note(guard, now(), event="released", outcome=outcome)


def keep_busy(lock: lockwright.Lock, stop: threading.Event) -> None:
    while not stop.is_set():
        with lock:
            pass


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
    Shim().main()
