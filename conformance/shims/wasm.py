"""The shim of the WASI component, in Python's Wasmtime. The README of this folder's parent says what a shim does.

A call of a component runs to its end, so whatever waits has an instance of its own, and so has each guard: a client is an
address here. While no call runs nothing of a component does; this host calls each instance that holds something, as a
program that holds a lock for long has to.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, Callable, Dict, List, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "bindings-wasm", "tests"))

from component import Compiled, Failed, Instance  # noqa: E402

from shim_common import Command, LogFile, name_of, now, passed, say  # noqa: E402

SPANS = {"ttl": "ttl", "max_hold": "max_hold"}
OPTIONS = ("renew", "fair", "rank", "label", "layout", "format")
# How often what is held is looked at.
EVERY = 0.01
FOREVER = (1 << 63) - 1


def span(seconds: Any) -> Optional[int]:
    """As many milliseconds; a component takes nothing else, so what is none is the host's to refuse."""
    if seconds is None:
        return None
    number = float(seconds) * 1000
    if number != number or number < 0:
        raise Refused(f"a span of {seconds} s is no number of milliseconds")
    return int(min(number, FOREVER))


class Refused(Exception):
    """What the types of the interface do not let through."""

    code = "invalid_config"
    retryable = False


class Held:
    """A guard with the instance that it is of."""

    def __init__(self, instance: Instance, guard: Any, of: str, among: Optional[str] = None) -> None:
        """`among` several locks it is told by that one's token."""
        self.instance, self.guard, self.of, self.among = instance, guard, of, among
        self.mutex = threading.RLock()
        self.over = False
        self.why: Optional[str] = None

    @property
    def token(self) -> int:
        with self.mutex:
            return self.guard.token if self.among is None else self.guard.tokens[self.among]

    def remaining(self) -> float:
        with self.mutex:
            return self.guard.remaining / 1000

    @property
    def is_held(self) -> bool:
        return self.remaining() > 0

    @property
    def why_lost(self) -> Optional[str]:
        with self.mutex:
            lost = self.guard.lost
        return lost and lost.replace("-", "_")

    def do(self, work: Callable[[], Any]) -> Any:
        with self.mutex:
            return work()


class Shim:
    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.uris: Dict[str, str] = {}
        self.guards: Dict[str, Held] = {}
        self.threads: List[threading.Thread] = []
        self.over = threading.Event()
        threading.Thread(target=self.keep, daemon=True).start()

    def keep(self) -> None:
        """Lets each instance that holds something renew it."""
        while not self.over.wait(EVERY):
            for held in list(self.guards.values()):
                if not held.over and held.mutex.acquire(blocking=False):
                    try:
                        held.remaining()
                    finally:
                        held.mutex.release()

    def main(self) -> None:
        say({"pid": os.getpid(), "language": "wasm", "resets": True})
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "exit":
                break
            self.threads.append(threading.Thread(target=self.answer, args=(command,), daemon=True))
            self.threads[-1].start()
        self.over.set()

    def answer(self, command: Command) -> None:
        try:
            ok = getattr(self, "do_" + command["do"])(command)
            say({"id": command["id"], "at": ok.pop("at", None) or now(), "ok": ok})
        except Exception as error:
            code = getattr(error, "code", type(error).__name__)
            failure = {"code": code, "retryable": getattr(error, "retryable", False), "message": str(error), "debug": repr(error)}
            say({"id": command["id"], "at": now(), "error": failure})

    def instance(self, command: Command) -> Instance:
        return Instance(self.compiled, self.uris[command["client"]])

    def options(self, command: Command) -> Dict[str, Any]:
        options = {name: command[name] for name in OPTIONS if command.get(name) is not None}
        options.update({ours: span(command[name]) for name, ours in SPANS.items() if command.get(name) is not None})
        return options

    def lock(self, instance: Instance, command: Command) -> Any:
        name, options = name_of(command), self.options(command)
        if command.get("with") is not None:
            return instance.multi_lock([*command["with"], name], **options)
        if command.get("permits") is not None:
            return instance.semaphore(name, command["permits"], command.get("take"), **options).permits()
        if command.get("share") is not None:
            return getattr(instance.rwlock(name, **options), command["share"])()
        return instance.lock(name, **options)

    def held(self, instance: Instance, guard: Any, command: Command) -> Held:
        return Held(instance, guard, command["client"], None if command.get("with") is None else name_of(command))

    def acquired(self, command: Command) -> Held:
        instance = self.instance(command)
        return self.held(instance, self.lock(instance, command).acquire(span(command.get("timeout"))), command)

    def keeps(self, command: Command, held: Held) -> Dict[str, Any]:
        at = now()
        self.guards[command["guard"]] = held
        return {"at": at, "token": held.token, "depth": 1, "remaining": held.remaining()}

    def do_open(self, command: Command) -> Dict[str, Any]:
        self.uris[command["client"]] = command["uri"]
        instance = self.instance(command)
        return {"shown": instance.call("[method]client.address", instance.client)}

    def do_guarantees(self, command: Command) -> Dict[str, Any]:
        instance = self.instance(command)
        promised = vars(instance.call("[method]client.guarantees", instance.client))
        # A component has no other locks than those of a server, which nobody enters twice.
        return {"shared": True, "reentrant": False, **{name.replace("-", "_"): value for name, value in promised.items()}}

    def do_acquire(self, command: Command) -> Dict[str, Any]:
        return self.keeps(command, self.acquired(command))

    def do_try(self, command: Command) -> Dict[str, Any]:
        instance = self.instance(command)
        guard = self.lock(instance, command).try_acquire()
        return {"taken": True} if guard is None else self.keeps(command, self.held(instance, guard, command))

    def do_release(self, command: Command) -> Dict[str, Any]:
        held = self.guards[command["guard"]]
        outcome = held.do(held.guard.release)
        held.over = True
        return {"outcome": outcome}

    def do_drop(self, command: Command) -> Dict[str, Any]:
        held = self.guards[command["guard"]]
        held.over = True
        held.do(held.guard.drop)
        return {}

    def do_extend(self, command: Command) -> Dict[str, Any]:
        held, ttl = self.guards[command["guard"]], span(command["ttl"])
        held.do(lambda: held.guard.renew(ttl))
        return {}

    def do_downgrade(self, command: Command) -> Dict[str, Any]:
        held = self.guards[command["guard"]]
        held.do(held.guard.downgrade)
        return {}

    def do_upgrade(self, command: Command) -> Dict[str, Any]:
        held = self.guards[command["guard"]]
        return {"upgraded": held.do(held.guard.try_upgrade)}

    def do_resize(self, command: Command) -> Dict[str, Any]:
        self.instance(command).semaphore(name_of(command), 1).resize(command["permits"])
        return {}

    def do_export(self, command: Command) -> Dict[str, Any]:
        held, ttl = self.guards[command["guard"]], span(command["ttl"])
        secret = held.do(lambda: held.guard.export(ttl))
        held.over = True
        return {"secret": secret}

    def do_resume(self, command: Command) -> Dict[str, Any]:
        instance = self.instance(command)
        return self.keeps(command, self.held(instance, instance.resume(command["secret"], **self.options(command)), command))

    def do_state(self, command: Command) -> Dict[str, Any]:
        held = self.guards[command["guard"]]
        state = {"held": held.is_held, "remaining": held.remaining(), "why": held.why_lost}
        return {**state, "token": held.token, "depth": 1}

    def do_campaign(self, command: Command) -> Dict[str, Any]:
        instance = self.instance(command)
        election = instance.election(command["lock"], **self.options(command))
        return self.keeps(command, self.held(instance, election.campaign(command["proclaims"], span(command.get("timeout"))), command))

    def do_leader(self, command: Command) -> Dict[str, Any]:
        return shown(self.instance(command).election(command["lock"]).leader())

    def do_changed(self, command: Command) -> Dict[str, Any]:
        election = self.instance(command).election(command["lock"])
        return shown(election.changed(command.get("known"), span(command["every"])))

    def do_latch(self, command: Command) -> Dict[str, Any]:
        latch = self.instance(command).latch(name_of(command), command["count"])
        asked = [command["to"]] if command.get("to") is not None else []
        if command["asks"] == "wait":
            asked = [span(command.get("timeout"))]
        return {"answer": getattr(latch, command["asks"])(*asked)}

    def do_barrier(self, command: Command) -> Dict[str, Any]:
        barrier = self.instance(command).barrier(name_of(command), command["parties"], span(command.get("ttl")))
        if command["asks"] == "waiting":
            return {"waiting": barrier.waiting()}
        return passed([barrier.wait(span(command.get("timeout"))) for _ in range(command.get("times") or 1)])

    def do_ping(self, command: Command) -> Dict[str, Any]:
        health = self.instance(command).ping()
        return {"took": health.took / 1e6, "may_evict": getattr(health, "may-evict")}

    def do_inspect(self, command: Command) -> Dict[str, Any]:
        seen = self.instance(command).inspect(name_of(command))
        shared, latch = seen.shared, None if seen.count is None else {"count": seen.count}
        if shared is not None:
            holders = [{"holds": part.holds, **holder_of(part.holder)} for part in shared.holders]
            shared = {"primitive": shared.primitive, "permits": shared.permits, "holders": holders}
        head = {"layout": seen.layout, "waiters": seen.waiters, "primitive": seen.primitive}
        return {**head, "latch": latch, "shared": shared, "holder": seen.holder and holder_of(seen.holder)}

    def do_list(self, command: Command) -> Dict[str, Any]:
        return {"names": self.instance(command).list()}

    def do_break(self, command: Command) -> Dict[str, Any]:
        return {"broken": self.instance(command).break_lock(name_of(command), command["token"])}

    def do_close(self, command: Command) -> Dict[str, Any]:
        for name, held in list(self.guards.items()):
            if held.of == command["client"]:
                self.end(self.guards.pop(name))
        return {}

    def end(self, held: Held) -> None:
        held.over = True
        held.do(held.instance.close)

    def do_reset(self, command: Command) -> Dict[str, Any]:
        """Gives back all that is held, and has nothing any more but the process itself."""
        for held in list(self.guards.values()):
            self.end(held)
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join()
        self.guards.clear()
        self.uris.clear()
        self.threads = [threading.current_thread()]
        return {}

    def do_work(self, command: Command) -> Dict[str, Any]:
        retries: List[str] = []
        failed: List[Exception] = []

        def work(i: int) -> None:
            instance = self.instance(command)
            lock = self.lock(instance, command)
            with LogFile(f"{command['name']}-{i}", command) as log:
                done = 0
                while done < command["increments"]:
                    try:
                        asked = now()
                        held = self.held(instance, lock.acquire(span(command.get("timeout"))), command)
                        log.increment(held, asked)
                        outcome = held.guard.release()
                        log.note(held, now(), event="released", outcome=outcome)
                        done += 1
                    except Exception as error:
                        if not getattr(error, "retryable", False):
                            failed.append(error)
                            return
                        retries.append(error.code)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(command["tasks"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        return {"retries": retries}


def holder_of(holder: Any) -> Dict[str, Any]:
    said = {name: getattr(holder, name) for name in ("host", "pid", "language", "label")}
    tokens = {name: getattr(holder, name.replace("_", "-")) for name in ("first_token", "last_token")}
    held_for = getattr(holder, "held-for")
    spans = {"remaining": 1e15 if holder.remaining is None else holder.remaining / 1000, "held_for": held_for and held_for / 1000}
    return {**said, **tokens, **spans}


def shown(leader: Any) -> Dict[str, Any]:
    if leader is None:
        return {"leader": None}
    return {"leader": {"proclaims": leader.proclaims, "pid": leader.pid, "language": leader.language, "token": leader.token}}


if __name__ == "__main__":
    Shim(Compiled(sys.argv[1])).main()
