"""A script that ends right after using the library, or in the middle of it, ends as any other does.

`LOCKWRIGHT_EXIT_RUNS` says how many of them are run; each store gets its share.
"""

from __future__ import annotations

import os
import subprocess
import sys

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
guard = client.lock("y" + sys.argv[2], ttl=0.02, renew=False).acquire_guard()
guard.on_lost(lambda why: lock.locked())
threading.Thread(target=guard.lost.wait, daemon=True).start()
lock.acquire()
lock.acquire(timeout=0.018)
""",
    "by an exception": """
with lock, client.lock("y" + sys.argv[2]) as guard:
    guard.on_lost(print)
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
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_exit(store_uri: str, ending: str) -> None:
    for run in range(max(1, RUNS // len(ENDINGS))):
        # A name of its own: the run before may have ended with its lock held.
        command = [sys.executable, "-c", PREAMBLE + ENDINGS[ending], store_uri, f"{ending} {run}"]
        script = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (script.returncode, script.stdout, script.stderr) == (0, "", ""), f"run {run}"
