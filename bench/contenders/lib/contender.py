"""The protocol of bench/README.md for contenders written in Python.

Only what the interpreter has loaded anyway is imported here, and the rest where it is used: a cold start is measured too.
"""

from __future__ import annotations

import os
import sys
import time

nanoseconds = time.perf_counter_ns

COMPARE_AND_DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class Contender:
    """What a contender is called and takes part in, and how it is used; the file of each one derives from this or `Awaited`."""

    name = ""
    role = "peer"
    rows: tuple[str, ...] = ()
    #: The commands of the server's statistics that are its requests.
    requests: tuple[str, ...] = ()
    #: Distributions whose versions matter.
    packages: tuple[str, ...] = ()

    @classmethod
    def absent(cls):
        """Why it cannot be measured here, if so."""
        return None

    def connect(self, url):
        raise NotImplementedError

    def task(self, key):
        """What acquires and what releases the lock `key`, for one task."""
        raise NotImplementedError

    def cold(self, url):
        self.connect(url)
        acquire, release = self.task("bench:cold")
        acquire()
        print("held", flush=True)
        release()

    def work(self, url):
        self.connect(url)
        self.free = self.task("bench:free")
        obey(self)

    def pairs(self, count):
        acquire, release = self.free
        took = []
        for _ in range(count):
            began = nanoseconds()
            acquire()
            release()
            took.append(nanoseconds() - began)
        return took

    def crowd(self, keys, go, stop):
        import threading

        stopped = threading.Event()
        tallies = [Tally() for _ in keys]
        threads = [
            threading.Thread(target=contend, args=(*self.task(key), tally, stopped))
            for key, tally in zip(keys, tallies)
        ]
        go()
        for thread in threads:
            thread.start()
        try:
            stop()
        finally:
            stopped.set()
        for thread in threads:
            thread.join()
        return tallies


class Tally:
    """What one task did. Only what was acquired before the end counts as served."""

    def __init__(self):
        self.acquired = 0
        self.ns = []

    def add(self, began, stopped):
        self.ns.append(nanoseconds() - began)
        self.acquired += not stopped


def contend(acquire, release, tally, stopped):
    while not stopped.is_set():
        began = nanoseconds()
        acquire()
        tally.add(began, stopped.is_set())
        release()


class Awaited(Contender):
    """A contender whose `connect` is a coroutine, and whose `task` returns what is awaited."""

    async def disconnect(self):
        pass

    def cold(self, url):
        import asyncio

        async def run():
            await self.connect(url)
            acquire, release = self.task("bench:cold")
            await acquire()
            print("held", flush=True)
            await release()
            await self.disconnect()

        asyncio.run(run())

    def work(self, url):
        import asyncio

        # Stdin is read while nothing else is done, or in a thread beside the tasks of a crowd.
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self.connect(url))
        self.free = self.task("bench:free")
        obey(self)
        self.loop.run_until_complete(self.disconnect())
        self.loop.close()

    def pairs(self, count):
        async def run():
            acquire, release = self.free
            took = []
            for _ in range(count):
                began = nanoseconds()
                await acquire()
                await release()
                took.append(nanoseconds() - began)
            return took

        return self.loop.run_until_complete(run())

    def crowd(self, keys, go, stop):
        import asyncio
        import threading

        stopped = threading.Event()
        tallies = [Tally() for _ in keys]

        async def contend_awaited(acquire, release, tally):
            while not stopped.is_set():
                began = nanoseconds()
                await acquire()
                tally.add(began, stopped.is_set())
                await release()

        async def run():
            tasks = [contend_awaited(*self.task(key), tally) for key, tally in zip(keys, tallies)]
            await asyncio.gather(*tasks)

        def wait_for_stop():
            # Also whoever is told nothing any more stops.
            try:
                stop()
            finally:
                stopped.set()

        go()
        end = threading.Thread(target=wait_for_stop)
        end.start()
        self.loop.run_until_complete(run())
        end.join()
        return tallies


def obey(contender):
    """Does what stdin says until it ends."""
    import json

    def expect(wanted):
        said = sys.stdin.readline().strip()
        if said != wanted:
            raise SystemExit(f"was told {said!r} in place of {wanted}")

    def names(tasks, which):
        return [f"bench:{os.getpid()}:{task}" if which == "own" else "bench:one" for task in range(int(tasks))]

    def go():
        contender.pairs(1)
        print("ready", flush=True)
        expect("go")

    print("ready", flush=True)
    for line in iter(sys.stdin.readline, ""):
        command, *words = line.split()
        if command == "pairs":
            print(json.dumps(contender.pairs(int(words[0]))), flush=True)
        elif command == "crowd":
            tallies = contender.crowd(names(*words), go, lambda: expect("stop"))
            print(json.dumps([{"acquired": tally.acquired, "ns": tally.ns} for tally in tallies]), flush=True)
        else:
            raise SystemExit(f"was told {line!r}")


def offer(contender):
    import platform
    from importlib import metadata

    absent = contender.absent()
    versions = {"Python": platform.python_version()}
    if absent is None:
        versions |= {f"{package} (PyPI)": metadata.version(package) for package in contender.packages}
    return {
        "name": contender.name,
        "language": "Python",
        "role": contender.role,
        "rows": contender.rows,
        "requests": contender.requests,
        "versions": versions,
        "absent": absent,
    }


def main(*contenders):
    """Runs the program of these contenders."""
    verb, *words = sys.argv[1:]
    if verb == "list":
        import json

        for contender in contenders:
            print(json.dumps(offer(contender)))
        return
    name, url, *numbers = words
    chosen = next(contender for contender in contenders if contender.name == name)
    getattr(chosen(), verb)(url, *map(int, numbers))
