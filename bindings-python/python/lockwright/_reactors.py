"""Which reactor serves which event loop."""

from __future__ import annotations

import asyncio
import os
import select
import threading
import weakref
from typing import Tuple, cast

from lockwright._beside import Beside
from lockwright._errors import Forked
from lockwright._lockwright import Reactor

_Loop = asyncio.AbstractEventLoop


# The loop keeps its reactor, which goes with it: when that is closed, or collected.
_reactors: Beside["weakref.ref[Reactor]"] = Beside()
_inherited: "weakref.WeakSet[_Loop]" = weakref.WeakSet()


def here() -> Tuple[_Loop, Reactor]:
    """The running loop and its reactor."""
    loop = asyncio.get_running_loop()
    known = _reactors.get(loop)
    reactor = known() if known is not None else None
    return loop, reactor if reactor is not None else _install(loop)


def _install(loop: _Loop) -> Reactor:
    if loop in _inherited:
        raise Forked(
            "this event loop was used before a fork and shares its descriptors with the parent process; run a new one",
            operation="connect",
        )
    reactor = Reactor(loop.call_soon)
    try:
        loop.add_reader(reactor.fileno(), reactor.turn)
    except NotImplementedError:
        watch = _Watch(loop, reactor)
        threading.Thread(target=watch.run, name="lockwright-watch", daemon=True).start()
    _reactors.put(loop, weakref.ref(reactor))
    return reactor


class _Watch:
    """For a loop that cannot watch descriptors: a thread of Python's does, until the loop is closed."""

    PATIENCE = 0.5
    """Seconds until it looks again whether the loop was closed."""

    def __init__(self, loop: _Loop, reactor: Reactor) -> None:
        self.loop = loop
        self.reactor = reactor
        self.turned = threading.Event()

    def run(self) -> None:
        poll = select.poll()
        poll.register(self.reactor.fileno(), select.POLLIN)
        while not self.loop.is_closed():
            if not poll.poll(self.PATIENCE * 1000):
                continue
            self.turned.clear()
            try:
                self.loop.call_soon_threadsafe(self.turn)
            except RuntimeError:
                return
            while not self.turned.wait(self.PATIENCE) and not self.loop.is_closed():
                pass

    def turn(self) -> None:
        self.reactor.turn()
        self.turned.set()


def _after_fork() -> None:
    for loop, _ in _reactors:
        _inherited.add(cast(_Loop, loop))
    _reactors.clear()


os.register_at_fork(after_in_child=_after_fork)
