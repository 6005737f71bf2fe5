"""Cancelled at random awaits, tasks leave nothing behind.

`LOCKWRIGHT_CANCELLATIONS` says how often, in each store and kind of event loop.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import threading
import time
from typing import Any, Callable, List

import lockwright
import lockwright.aio as aio
from conftest import Run
from test_leaks import nothing_left as nothing_left

CANCELLATIONS = int(os.environ.get("LOCKWRIGHT_CANCELLATIONS", "500"))
TASKS = 50
SOON = 60
"""Seconds after which what should have happened at once did not."""
STALL = 0.5
"""Seconds without a beat that show a machine which stands still: after one second a lock that was handed on is another's."""


class Pulse:
    """Notices that the machine stands still, while it is entered."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.beat)

    def beat(self) -> None:
        last = time.monotonic()
        is_over = False
        while not is_over:
            is_over = self.over.wait(0.01)
            now = time.monotonic()
            self.longest = max(self.longest, now - last)
            last = now

    def __enter__(self) -> Pulse:
        self.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.over.set()
        self.thread.join()


class Work:
    """Tasks that count under a lock, each time in three steps, and are cancelled in whatever they await."""

    def __init__(self, clients: List[aio.Client], seed: int) -> None:
        self.clients = clients
        self.random = random.Random(seed)
        self.inside = 0
        self.count = 0
        self.counted = 0
        self.turns = [0] * TASKS
        self.over = False

    async def task(self, number: int) -> None:
        client = self.clients[number % len(self.clients)]
        lock = client.rlock("x") if number % 5 == 0 else client.lock("x", fair=number % 7 == 0)
        ways = (self.in_a_block, self.by_acquire, self.by_guard, self.by_time_limit)
        while not self.over:
            try:
                await ways[number % len(ways)](lock)
                self.turns[number] += 1
            except asyncio.CancelledError:
                if hasattr(asyncio.Task, "uncancel"):
                    asyncio.current_task().uncancel()  # type: ignore[union-attr]

    async def in_a_block(self, lock: aio.Lock) -> None:
        async with lock as guard:
            await self.increment()
            assert guard.is_held

    async def by_acquire(self, lock: aio.Lock) -> None:
        if await lock.acquire():
            try:
                await self.increment()
            finally:
                await lock.release()

    async def by_guard(self, lock: aio.Lock) -> None:
        async with await lock.acquire_guard() as guard:
            await guard.extend(20)
            await self.increment()

    async def by_time_limit(self, lock: aio.Lock) -> None:
        try:
            had = await lock.acquire(timeout=0.002)
        except lockwright.Unavailable:
            # A busy machine's store need not have answered by then.
            return
        if had:
            try:
                await self.increment()
            finally:
                await lock.release()

    async def increment(self) -> None:
        assert self.inside == 0, "two tasks hold the lock"
        self.inside += 1
        try:
            before = self.count
            await asyncio.sleep(0)
            self.count = before + 1
            self.counted += 1
        finally:
            self.inside -= 1

    async def everybody(self, tasks: List["asyncio.Task[None]"]) -> None:
        """Until every task had another turn. A task that failed has none: its error is raised."""
        before = list(self.turns)
        while any(now == then for now, then in zip(self.turns, before)):
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.001)

    async def cancel(self, tasks: List["asyncio.Task[None]"], times: int) -> None:
        for _ in range(times):
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(self.random.choice((0, 0, 0.0005, 0.002)))
            self.random.choice(tasks).cancel()

    async def end(self, tasks: List["asyncio.Task[None]"]) -> None:
        """Whatever they await, and whatever came of them."""
        self.over = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_cancelled_at_random(store_uri: str, run: Run, nothing_left: Callable[[], None]) -> None:
    async def main(cancellations: int) -> None:
        # To be told that a busy machine is no store would end a task.
        async with aio.connect(store_uri, store_timeout=SOON) as mine, aio.connect(store_uri, store_timeout=SOON) as other:
            work = Work([mine, other], seed=4)
            tasks = [asyncio.create_task(work.task(number)) for number in range(TASKS)]
            # A task that is cancelled before it begins never does.
            await asyncio.sleep(0)
            await work.cancel(tasks, cancellations)
            try:
                # Nobody's wake-up was lost.
                await asyncio.wait_for(work.everybody(tasks), SOON)
                work.over = True
                await asyncio.wait_for(asyncio.gather(*tasks), SOON)
            finally:
                await work.end(tasks)
            assert work.count == work.counted > 0
            assert await other.lock("x").acquire(timeout=SOON)
            await other.lock("x").release()
            seen = await mine.inspect("x")
            assert seen.holder is None and seen.waiters == 0

    def play(cancellations: int) -> None:
        """Again where the machine stood still: what was lost then shows nothing."""
        while True:
            with Pulse() as pulse:
                try:
                    run(main(cancellations))
                    return
                except (lockwright.LockLost, AssertionError):
                    if pulse.longest < STALL:
                        raise
            # The error and what it was raised in hold each other, and the event loop.
            gc.collect()

    play(10)
    nothing_left()
    play(CANCELLATIONS)
