"""The core's events for `logging`, told by a thread of Python's.

Nothing is collected, and no thread started, before `logging` has a handler for the logger `lockwright`.
"""

from __future__ import annotations

import logging
import threading
import traceback
from typing import Any, Dict, Optional

from lockwright._dispatcher import attend
from lockwright._lockwright import Events, _generation

_logger = logging.getLogger("lockwright")

# By their number in the core. Python has no name for the last one.
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, 5)

_level: Optional[int] = None
# By generation of the process: a forked child has none of its parent's. No lock guards it, which a fork could find taken.
_threads: Dict[int, threading.Thread] = {}


def follow() -> None:
    """From now on what somebody wants to see is told. Called at whatever a program does before it uses a lock."""
    global _level
    level = _wanted()
    if level == _level and (level is None or _generation() in _threads):
        return
    events = Events()
    events.set_level(level)
    _level = level
    if level is not None:
        thread = threading.Thread(target=_serve, args=(events,), name="lockwright-log", daemon=True)
        if _threads.setdefault(_generation(), thread) is thread:
            attend(thread, events)


def _wanted() -> Optional[int]:
    if not _logger.hasHandlers():
        return None
    enabled = [number for number, level in enumerate(_LEVELS) if _logger.isEnabledFor(level)]
    return enabled[-1] if enabled else None


def _serve(events: Events) -> None:
    while True:
        told = events.wait()
        if told is None:
            return
        for event in told:
            try:
                _tell(**event)
            except Exception:
                # A handler of the program's; the next event may be told all the same.
                traceback.print_exc()
        follow()


def _tell(at: float, level: int, target: str, message: str, fields: Dict[str, Any], missed: int) -> None:
    if missed:
        _logger.warning("%d events before the next one found no room and are lost", missed)
    if not _logger.isEnabledFor(_LEVELS[level]):
        return
    shown = " ".join(f"{name}={value!r}" for name, value in fields.items())
    text = f"{message} {shown}".strip()
    extra = {"lockwright": {"target": target, **fields}}
    record = _logger.makeRecord(_logger.name, _LEVELS[level], "lockwright", 0, text, (), None, extra=extra)
    # It happened before it is told.
    record.created, record.msecs = at, at % 1 * 1000
    _logger.handle(record)


def collected(message: str) -> None:
    """A guard was collected unreleased. Told here and not as an event: also where nothing of `logging` is set up."""
    _logger.warning("%s", message)
