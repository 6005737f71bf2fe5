"""Programs whose threads are greenlets, because gevent or eventlet has patched `threading`.

Whatever waits for a lock there waits in the hub of its thread, which runs the other greenlets meanwhile; the library's own
threads are greenlets too. What asks the store something blocks the thread until it has answered, as a file does.
"""

from __future__ import annotations

import _thread
import importlib
import importlib.machinery
import importlib.util
import itertools
import os
import sys
import weakref
from typing import Any, Callable, Dict, List, Optional

from lockwright._dispatcher import ask
from lockwright._lockwright import Notifier

# By the hub of each thread; a forked child makes its own.
_hubs: "weakref.WeakKeyDictionary[Any, Hub]" = weakref.WeakKeyDictionary()

# A greenlet's own number, never another's later, and none of a thread's.
_owners: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()
_numbers = itertools.count(1 << 62)


class Hub:
    """What runs the greenlets of one thread."""

    def __init__(self, event: Callable[[], Any], sleep: Callable[[float], object]) -> None:
        self.notifier = Notifier()
        self.pause = sleep
        self._event = event
        self._waiting: Dict[int, Any] = {}

    def wait(self, number: int, seconds: float) -> None:
        """Until the notifier is notified for `number`, for at most so many seconds."""
        event = self._waiting[number] = self._event()
        try:
            event.wait(seconds)
        finally:
            del self._waiting[number]

    def _rung(self) -> List[Any]:
        return [self._waiting[number] for number in self.notifier.notified() if number in self._waiting]

    def inherited(self) -> None:
        """In a forked child, where what is notified is for the parent."""
        raise NotImplementedError


class _Gevent(Hub):
    def __init__(self, gevent: Any, hub: Any) -> None:
        super().__init__(importlib.import_module("gevent.event").Event, lambda seconds: gevent.sleep(seconds, ref=False))
        self._watcher = hub.loop.io(self.notifier.fileno(), 1, ref=False)
        self._watcher.start(self._ring)

    def _ring(self) -> None:
        for event in self._rung():
            event.set()

    def inherited(self) -> None:
        self._watcher.stop()


class _Eventlet(Hub):
    def __init__(self, eventlet: Any, hub: Any) -> None:
        super().__init__(importlib.import_module("eventlet.event").Event, eventlet.sleep)
        self._is_inherited = False
        hub.add(hub.READ, self.notifier.fileno(), self._ring, _ignore, _ignore)

    def _ring(self, _: int) -> None:
        if not self._is_inherited:
            for event in self._rung():
                if not event.ready():
                    event.send()

    def inherited(self) -> None:
        # Its hub shares what it watches with the parent, where it is still needed.
        self._is_inherited = True


def _ignore(*_: object) -> None:
    pass


def here() -> Optional[Hub]:
    """The hub of this thread; None where threads were patched by something else, and still are threads."""
    library = _thread.start_new_thread.__module__.partition(".")[0]
    if library not in ("gevent", "eventlet"):
        return None
    module = sys.modules[library]
    if library == "gevent":
        hub = module.get_hub()
    else:
        hub = module.hubs.get_hub()
    known = _hubs.get(hub)
    if known is None:
        known = _hubs[hub] = _Gevent(module, hub) if library == "gevent" else _Eventlet(module, hub)
    return known


def who() -> int:
    """Who runs, as the owner of what it acquires."""
    me = sys.modules["greenlet"].getcurrent()
    number = _owners.get(me)
    if number is None:
        number = _owners[me] = next(_numbers)
    return number


def ask_beside(credentials: Callable[[], Any], answer: Callable[[Any], None]) -> None:
    """Asks for credentials on a thread that is none of the greenlets, and waits for nothing."""
    if sys.version_info < (3, 10):
        answer("under gevent and eventlet a credentials callable needs Python 3.10 or newer")
        return
    # The module as it was before it was patched: a second copy of it.
    spec = importlib.machinery.BuiltinImporter.find_spec("_thread")
    assert spec is not None
    threads: Any = importlib.util.module_from_spec(spec)
    importlib.machinery.BuiltinImporter.exec_module(threads)
    threads.start_new_thread(lambda: answer(ask(credentials)), ())


def _after_fork() -> None:
    for hub in list(_hubs.values()):
        hub.inherited()
    _hubs.clear()


os.register_at_fork(after_in_child=_after_fork)
