"""The shim of `lockwright.aio`. The README of this folder's parent says what a shim does."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import threading
from typing import Any, Awaitable, Callable, Dict, List, Optional, Tuple

import lockwright
from lockwright import aio

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
        self.clients: Dict[str, aio.Client] = {}
        self.uris: Dict[str, str] = {}
        self.guards: Dict[str, Guard] = {}
        self.stocks: Dict[Tuple[str, str, int], aio.Striped] = {}
        self.segments: Dict[str, aio.Segment] = {}
        self.owners: Dict[int, "asyncio.Queue[Optional[Command]]"] = {}
        self.tasks: Dict[int, "asyncio.Task[None]"] = {}

    async def main(self) -> None:
        commands: "asyncio.Queue[Optional[Command]]" = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def read() -> None:
            for line in sys.stdin:
                command = json.loads(line)
                if command["do"] == "exit":
                    break
                loop.call_soon_threadsafe(commands.put_nowait, command)
            loop.call_soon_threadsafe(commands.put_nowait, None)

        threading.Thread(target=read, daemon=True).start()
        while True:
            command = await commands.get()
            if command is None:
                return
            self.dispatch(command)

    def dispatch(self, command: Command) -> None:
        owner = command.get("owner")
        if owner is None:
            number = command["id"]
            self.tasks[number] = asyncio.create_task(self.answer(command))
            self.tasks[number].add_done_callback(lambda task: self.tasks.pop(number))
            return
        # An owner is a task here.
        if owner not in self.owners:
            self.owners[owner] = asyncio.Queue()
            self.tasks[-owner - 1] = asyncio.create_task(self.serve(self.owners[owner]))
        self.owners[owner].put_nowait(command)

    async def serve(self, commands: "asyncio.Queue[Optional[Command]]") -> None:
        while (command := await commands.get()) is not None:
            await self.answer(command)

    async def answer(self, command: Command) -> None:
        try:
            ok = await getattr(self, "do_" + command["do"])(command)
        except asyncio.CancelledError:
            say_cancelled(command)
            raise
        except Exception as error:
            say_error(command, error)
        else:
            say_ok(command, ok)

    async def do_cancel(self, command: Command) -> Dict[str, Any]:
        task = self.tasks.get(command["command"])
        if task is not None:
            task.cancel()
        return {}

    def client(self, command: Command) -> aio.Client:
        return self.clients[command["client"]]

    def own_client(self, command: Command, i: int) -> aio.Client:
        name = f"{command['client']}/{i}"
        if name not in self.clients:
            self.clients[name] = aio.connect(self.uris[command["client"]])
        return self.clients[name]

    async def do_open(self, command: Command) -> Dict[str, Any]:
        self.clients[command["client"]] = aio.connect(command["uri"])
        self.uris[command["client"]] = command["uri"]
        return {"shown": repr(self.clients[command["client"]])}

    async def do_guarantees(self, command: Command) -> Dict[str, Any]:
        return dataclasses.asdict(self.client(command).guarantees())

    async def do_require(self, command: Command) -> Dict[str, Any]:
        self.client(command).require(**dict.fromkeys(command["wants"], True))
        return {}

    async def do_acquire(self, command: Command) -> Dict[str, Any]:
        return self.keep(command, await lock_of(self.client(command), command).acquire_guard())

    async def do_try(self, command: Command) -> Dict[str, Any]:
        guard = await lock_of(self.client(command), command).try_acquire()
        return {"taken": True} if guard is None else self.keep(command, guard)

    def keep(self, command: Command, guard: Guard) -> Dict[str, Any]:
        self.guards[command["guard"]] = guard
        return what_was_acquired(guard, command)

    async def do_release(self, command: Command) -> Dict[str, Any]:
        guard = self.guards[command["guard"]]
        return what_was_released(guard, await guard.release())

    async def do_extend(self, command: Command) -> Dict[str, Any]:
        await self.guards[command["guard"]].extend(command["ttl"])
        return {}

    async def do_downgrade(self, command: Command) -> Dict[str, Any]:
        await self.guards[command["guard"]].downgrade()
        return {}

    async def do_upgrade(self, command: Command) -> Dict[str, Any]:
        return {"upgraded": await self.guards[command["guard"]].try_upgrade()}

    async def do_resize(self, command: Command) -> Dict[str, Any]:
        await self.client(command).semaphore(name_of(command), 1).resize(command["permits"])
        return {}

    async def do_export(self, command: Command) -> Dict[str, Any]:
        return {"secret": await self.guards[command["guard"]].export(command["ttl"])}

    async def do_resume(self, command: Command) -> Dict[str, Any]:
        client, secret = self.client(command), command["secret"]
        if command.get("lock") is None:
            return self.keep(command, await client.resume(secret, **options_of(command)))
        return self.keep(command, await lock_of(client, command).resume(secret))

    async def do_hold_at_least_for(self, command: Command) -> Dict[str, Any]:
        self.guards[command["guard"]].hold_at_least_for(command["span"])
        return {}

    async def do_ping(self, command: Command) -> Dict[str, Any]:
        health = await self.client(command).ping()
        return {"took": health.took, "may_evict": health.may_evict}

    async def do_drain(self, command: Command) -> Dict[str, Any]:
        return {"held": await self.client(command).drain(command["limit"])}

    async def do_count(self, command: Command) -> Dict[str, Any]:
        with Log(command["name"], command) as log:
            log.increment(self.guards[command["guard"]], command["asked"])
        return {}

    def striped(self, command: Command) -> aio.Striped:
        """The same one for each command: what is sold out is known to it alone."""
        key = command["client"], command["lock"], command["segments"]
        if key not in self.stocks:
            self.stocks[key] = self.client(command).striped(command["lock"], command["segments"], **options_of(command))
        return self.stocks[key]

    async def do_segment(self, command: Command) -> Dict[str, Any]:
        striped, key = self.striped(command), command.get("key")
        if key is not None:
            guard = await striped.for_key(key).acquire_guard()
            return {**self.keep(command, guard), "index": striped.index_for(key)}
        segment = await striped.any(command.get("timeout"))
        if segment is None:
            return {"none": True}
        self.segments[command["guard"]] = segment
        return {**self.keep(command, segment.guard), "index": segment.index}

    async def do_sold_out(self, command: Command) -> Dict[str, Any]:
        return {"outcome": await self.segments.pop(command["guard"]).sold_out()}

    async def do_restock(self, command: Command) -> Dict[str, Any]:
        self.striped(command).restock()
        return {}

    async def do_once(self, command: Command) -> Dict[str, Any]:
        client, made = self.client(command), Made(command)
        gate = gate_of(client, command)

        async def look() -> Optional[Tuple[int, bool]]:
            return made.look()

        async def make(token: int) -> int:
            made.made = True
            if gate is not None:
                async with gate:
                    pass
            return made.make()

        once = client.once(command["lock"], look, make, waits=bool(command.get("waits")), **options_of(command))
        return {"value": await once.get(), "made": made.made}

    def election(self, command: Command) -> aio.Election:
        return self.client(command).election(command["lock"], **options_of(command))

    async def do_campaign(self, command: Command) -> Dict[str, Any]:
        return self.keep(command, await self.election(command).campaign(command["proclaims"]))

    async def do_lead(self, command: Command) -> Dict[str, Any]:
        gate, reigns = self.client(command).lock(command["gate"]), []

        async def work(guard: aio.Guard) -> int:
            reigns.append(guard.token)
            async with gate:
                return guard.token

        return {"token": await self.election(command).run(command["proclaims"], work), "reigns": len(reigns)}

    async def do_latch(self, command: Command) -> Dict[str, Any]:
        latch = self.client(command).latch(command["lock"], command["count"])
        return {"answer": await getattr(latch, command["asks"])(*asked_of_latch(command))}

    async def do_barrier(self, command: Command) -> Dict[str, Any]:
        barrier = self.client(command).barrier(command["lock"], command["parties"], ttl=command.get("ttl"))
        if command["asks"] == "waiting":
            return {"waiting": await barrier.waiting()}
        return passed([await barrier.wait(command.get("timeout")) for _ in range(command.get("times") or 1)])

    async def do_leader(self, command: Command) -> Dict[str, Any]:
        return shown(await self.election(command).leader())

    async def do_changed(self, command: Command) -> Dict[str, Any]:
        return shown(await self.election(command).changed(command.get("known"), command["every"]))

    async def do_state(self, command: Command) -> Dict[str, Any]:
        return state_of(self.guards[command["guard"]])

    async def do_lost(self, command: Command) -> Optional[Dict[str, Any]]:
        guard = self.guards[command["guard"]]
        return {"why": guard.why_lost} if await guard.lost.wait() else None

    async def do_abandon(self, command: Command) -> Dict[str, Any]:
        del self.guards[command["guard"]]
        return {}

    async def do_inspect(self, command: Command) -> Dict[str, Any]:
        return seen(await self.client(command).inspect(name_of(command)))

    async def do_list(self, command: Command) -> Dict[str, Any]:
        return {"names": await self.client(command).list()}

    async def do_break(self, command: Command) -> Dict[str, Any]:
        return {"broken": await self.client(command).break_lock(name_of(command), command["token"])}

    async def do_request_release(self, command: Command) -> Dict[str, Any]:
        return {"asked": await lock_of(self.client(command), command).request_release(command["token"])}

    async def do_requested(self, command: Command) -> Dict[str, Any]:
        asked = asyncio.Event()
        self.guards[command["guard"]].on_release_requested(asked.set)
        await asked.wait()
        return {"requested": self.guards[command["guard"]].release_requested}

    async def do_close(self, command: Command) -> Dict[str, Any]:
        await self.client(command).close()
        return {}

    async def do_reset(self, command: Command) -> Dict[str, Any]:
        """Ends all that is in hand, and has nothing any more but the process itself."""
        for client in list(self.clients.values()):
            await client.close()
        for owner in self.owners.values():
            owner.put_nowait(None)
        others = [task for number, task in self.tasks.items() if number != command["id"]]
        await asyncio.gather(*others, return_exceptions=True)
        self.tasks = {command["id"]: self.tasks[command["id"]]}
        for kept in (self.clients, self.uris, self.guards, self.stocks, self.segments, self.owners):
            kept.clear()
        return {}

    async def do_fork(self, command: Command) -> Dict[str, Any]:
        client, stop = self.client(command), threading.Event()
        if command.get("busy"):
            for i in range(2):
                lock = client.lock(f"{command['lock']}.busy-{i}")
                threading.Thread(target=asyncio.run, args=(keep_busy(lock, stop),), daemon=True).start()
        lock, guard = lock_of(client, command), self.guards[command["guard"]]
        children = []
        for i in range(command.get("times", 1)):
            other = client.lock(f"{command['other']}-{i}")
            child = Child(lambda: asyncio.run(tell(lock, other, guard)))
            children.append(await asyncio.to_thread(child.wait, 20))
        stop.set()
        return {"children": children}

    async def do_prefork(self, command: Command) -> Dict[str, Any]:
        lock = lock_of(self.client(command), command)
        names = [f"{command['name']}-child-{i}" for i in range(command["children"])]
        children = [Child(lambda: told(asyncio.run(outcome_of(work(name, lock, command))))) for name in names]
        return {"children": [await asyncio.to_thread(child.wait, 60) for child in children]}

    async def do_work(self, command: Command) -> Dict[str, Any]:
        tasks = []
        for i in range(command["tasks"]):
            client = self.own_client(command, i) if command.get("own_clients") else self.client(command)
            tasks.append(work(f"{command['name']}-{i}", lock_of(client, command), command))
        return {"retries": sum(await asyncio.gather(*tasks), [])}


def lock_of(client: aio.Client, command: Command) -> aio.Lock:
    lock: aio.Lock = made_by(client, command)
    return lock


async def work(name: str, lock: aio.Lock, command: Command) -> List[str]:
    retries: List[str] = []
    with Log(name, command) as log:
        for _ in range(command["increments"]):
            while not await increment(lock, log, retries):
                pass
    return retries


async def increment(lock: aio.Lock, log: Log, retries: List[str]) -> bool:
    try:
        asked = now()
        guard = await lock.acquire_guard()
        log.increment(guard, asked)
        outcome = await guard.release()
        log.note(guard, now(), event="released", outcome=outcome)
        return True
    except lockwright.LockError as error:
        if not error.retryable:
            raise
        retries.append(error.code)
        return False


async def outcome_of(working: Awaitable[Any]) -> Optional[BaseException]:
    try:
        await working
    except Exception as error:
        return error
    return None


async def keep_busy(lock: aio.Lock, stop: threading.Event) -> None:
    while not stop.is_set():
        async with lock:
            pass


async def tell(lock: aio.Lock, other: aio.Lock, guard: aio.Guard) -> Dict[str, Any]:
    """What a child finds."""

    async def of_parents() -> str:
        return "taken" if await lock.try_acquire() is None else "granted"

    async def own() -> str:
        return await (await other.acquire_guard()).release()

    found = {"parents": await code_of(of_parents), "own": await code_of(own)}
    return {**found, "held": guard.is_held, "guard": await code_of(guard.release)}


async def code_of(call: Callable[[], Awaitable[str]]) -> str:
    try:
        return await call()
    except lockwright.LockError as error:
        return error.code


if __name__ == "__main__":
    greet()
    asyncio.run(Shim().main())
