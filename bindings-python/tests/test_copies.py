from __future__ import annotations

import importlib
import shutil
import sqlite3
import sys
import threading
from pathlib import Path
from types import ModuleType

import lockwright
import pytest

ROUNDS = 50


def _copy(folder: Path) -> ModuleType:
    """The whole package once more, with a native library of its own."""
    package = Path(lockwright.__file__).parent
    shutil.copytree(package, folder / "lockwright")
    ours = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "lockwright"}
    for name in ours:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("lockwright")
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == "lockwright"]:
            del sys.modules[name]
        sys.modules.update(ours)


@pytest.mark.skipif(sys.platform != "linux", reason="locks of an open file description are Linux's")
def test_copies_of_the_library_exclude_each_other(tmp_path: Path) -> None:
    """As two versions of it in one process are; beside them the application looks into the file by its own SQLite."""
    other = _copy(tmp_path / "other")
    assert other is not lockwright
    uri = f"sqlite://{tmp_path / 'locks.db'}"
    inside, count, errors = 0, 0, []
    stop = threading.Event()

    def work(library: ModuleType) -> None:
        nonlocal inside, count
        try:
            with library.connect(uri) as client:
                for _ in range(ROUNDS):
                    with client.lock("x", ttl=10) as guard:
                        inside += 1
                        seen = count
                        stop.wait(0.0005)
                        assert inside == 1 and guard.is_held
                        count = seen + 1
                        inside -= 1
        except BaseException as error:
            errors.append(error)

    def look() -> None:
        while not stop.is_set():
            database = sqlite3.connect(tmp_path / "locks.db", timeout=10)
            try:
                database.execute("SELECT count(*) FROM locks").fetchall()
            except sqlite3.OperationalError:
                pass  # Nothing is in it yet, or it is being made.
            database.close()

    workers = [threading.Thread(target=work, args=[library]) for library in [lockwright, other] * 3]
    looker = threading.Thread(target=look)
    for thread in [looker, *workers]:
        thread.start()
    for thread in workers:
        thread.join()
    stop.set()
    looker.join()
    assert not errors, errors
    assert count == ROUNDS * len(workers)
