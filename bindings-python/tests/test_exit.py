"""A script that ends right after using the library, or in the middle of it, ends as any other does.

`LOCKWRIGHT_EXIT_RUNS` says how many of them are run; each store gets its share.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import lockwright
import pytest

RUNS = int(os.environ.get("LOCKWRIGHT_EXIT_RUNS", "20"))

PREAMBLE = """
import sys, threading
import lockwright
client = lockwright.connect(sys.argv[1])
lock = client.lock(sys.argv[2])
"""

ENDINGS = {
    "after a release": """
with lock: pass
""",
    "while it is held": """
lock.acquire()
""",
    "while threads wait": """
lock.acquire()
for _ in range(3):
    threading.Thread(target=lock.acquire, daemon=True).start()
threading.Thread(target=lock.acquire, args=(True, 0.01), daemon=True).start()
""",
    "while it is being lost": """
guard = None
while guard is None:
    try:
        guard = client.lock("y" + sys.argv[2], ttl="20ms", renew=False).acquire_guard()
    except lockwright.LockLost:
        pass  # over before the call returned
guard.on_lost(lambda why: lock.locked())
threading.Thread(target=guard.lost.wait, daemon=True).start()
lock.acquire()
lock.acquire(timeout=0.018)
""",
    "by an exception": """
with lock, client.lock("y" + sys.argv[2]) as guard:
    guard.on_lost(lambda why: guard.is_held)
    sys.exit(0)
""",
    "while threads lock": """
def hammer():
    while True:
        with lock: pass
for _ in range(3):
    threading.Thread(target=hammer, daemon=True).start()
with lock: pass
""",
    # Each switch of threads is one at which the exit can end a thread, wherever that is.
    "while threads that switch at once lock": """
import time
sys.setswitchinterval(1e-6)
def hammer():
    while True:
        with client.lock(sys.argv[2]): pass
for _ in range(8):
    threading.Thread(target=hammer, daemon=True).start()
time.sleep(0.01)
""",
}


ASYNC_PREAMBLE = """
import asyncio, sys, threading
import lockwright.aio
import uvloop
new_event_loop = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}[sys.argv[3]]
client = lockwright.aio.connect(sys.argv[1])
lock = client.lock(sys.argv[2])

def new_loop():
    loop = new_event_loop()
    # It tells of tasks that never ended, as these do.
    loop.set_exception_handler(lambda loop, context: None)
    return loop

async def hold(body=None):
    async with lock:
        if body is not None:
            await body()

loop = new_loop()
"""

ASYNC_ENDINGS = {
    "after a release": """
loop.run_until_complete(hold())
""",
    "after everything was closed": """
loop.run_until_complete(hold())
loop.run_until_complete(client.close())
loop.close()
""",
    "while it is held": """
loop.run_until_complete(lock.acquire())
""",
    "while tasks wait": """
async def main():
    await lock.acquire()
    global tasks
    tasks = [asyncio.ensure_future(hold()) for _ in range(3)]
    tasks.append(asyncio.ensure_future(lock.acquire(timeout=0.01)))
    await asyncio.sleep(0.005)
loop.run_until_complete(main())
""",
    "while it is being lost": """
async def main():
    global guard
    guard = None
    while guard is None:
        try:
            guard = await client.lock("y" + sys.argv[2], ttl="20ms", renew=False).acquire_guard()
        except lockwright.LockLost:
            pass  # over before the call returned
    guard.on_lost(lambda why: guard.is_held)
    asyncio.ensure_future(guard.lost.wait())
    await asyncio.sleep(0.018)
loop.run_until_complete(main())
""",
    "by an exception": """
async def leave():
    sys.exit(0)
loop.run_until_complete(hold(leave))
""",
    "while threads with loops lock": """
async def hammer():
    while True:
        await hold()
for _ in range(3):
    threading.Thread(target=new_loop().run_until_complete, args=(hammer(),), daemon=True).start()
loop.run_until_complete(hold())
""",
    "while a thread with a loop waits": """
loop.run_until_complete(lock.acquire())
threading.Thread(target=new_loop().run_until_complete, args=(hold(),), daemon=True).start()
loop.run_until_complete(lock.acquire(timeout=0.005))
""",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_exit(store_uri: str, ending: str) -> None:
    # A name of its own for each: the one before may have ended with its lock held.
    text, runs = PREAMBLE + ENDINGS[ending], range(max(1, RUNS // len(ENDINGS)))
    ends(text, [(store_uri, f"{ending} {run}") for run in runs])


@pytest.mark.parametrize("ending", ASYNC_ENDINGS)
def test_exit_with_an_event_loop(store_uri: str, ending: str) -> None:
    text, runs = ASYNC_PREAMBLE + ASYNC_ENDINGS[ending], range(max(2, RUNS // len(ASYNC_ENDINGS)))
    ends(text, [(store_uri, f"{ending} {run}", ("asyncio", "uvloop")[run % 2]) for run in runs])


def test_no_code_of_pythons_runs_below_a_call(client: lockwright.Client, other: lockwright.Client) -> None:
    """Where a daemon thread is in such code, the interpreter's exit unwinds it through frames of Rust, which aborts."""
    called: list[str] = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")

    client.lock("x"), client.rlock("y")
    held = other.lock("x").acquire_guard()
    sys.setprofile(watch)
    try:
        lock, rlock = client.lock("x"), client.rlock("y")
        lock.acquire(timeout=0.01)
        lock.try_acquire()
        held.release()
        lock.acquire()
        lock.release()
        with lock as guard, rlock, rlock:
            guard.is_held, guard.remaining(), guard.token
    finally:
        sys.setprofile(None)
    assert not called


def ends(text: str, runs: list[tuple[str, ...]]) -> None:
    def end(arguments: tuple[str, ...]) -> None:
        command = [sys.executable, "-c", text, *arguments]
        script = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (script.returncode, script.stdout, script.stderr) == (0, "", ""), arguments

    # Two at once: most of the time of each goes into starting Python.
    with ThreadPoolExecutor(2) as pool:
        for ended in [pool.submit(end, arguments) for arguments in runs]:
            ended.result()
