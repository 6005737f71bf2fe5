"""Distributed locks that programs in every language share.

    import lockwright

    client = lockwright.connect("redis://localhost")
    with client.lock("orders:42", ttl=10) as guard:
        charge(fence=guard.token)

A `Lock` behaves as `threading.Lock`, an `RLock` as `threading.RLock`, a `Semaphore` as `threading.BoundedSemaphore`, over
all processes that use the same store; an `RwLock` has two locks, one for readers and one for writers. What is held is renewed until it is released; a process that dies holds it for `ttl` seconds at most. `lockwright.aio` has the
same for asyncio.
"""

from __future__ import annotations

import _thread
import os
import threading
from typing import TYPE_CHECKING, Any

# The helpers that native code imports are loaded here, lest a fork catches another thread in the middle of that.
from lockwright import _green as _green
from lockwright import _guarded as _guarded
from lockwright import _dispatcher as _dispatcher
from lockwright import _log as _log
from lockwright import _warn as _warn

from lockwright._errors import (
    AuthFailed,
    Cancelled,
    Closed,
    Deadlock,
    ForeignLayout,
    Forked,
    InternalError,
    InvalidConfig,
    LockError,
    LockLost,
    LockTimeout,
    NotOwned,
    OverReleased,
    ProtocolError,
    QuorumFailed,
    Unavailable,
    Unsupported,
)
from lockwright._election import Election, Leader
from lockwright._lockwright import (
    Barrier,
    Client,
    Guard,
    Histogram,
    Latch,
    Lock,
    Lost,
    RLock,
    Semaphore,
    __version__,
    connect,
    restored,
)
from lockwright._once import Once
from lockwright._records import Arrival, Counting, Guarantees, Health, Holder, Inspection, Metrics, Part, Sharing, Waiting
from lockwright._several import MultiGuard, MultiLock, RwLock, Segment, Striped

from lockwright._lockwright import _main_thread

if TYPE_CHECKING:
    from lockwright import aio as aio

_main_thread(threading.main_thread().ident or 0)
# Whichever thread forks is the child's main one.
os.register_at_fork(after_in_child=lambda: _main_thread(_thread.get_ident()))

__all__ = [
    "Arrival",
    "AuthFailed",
    "Barrier",
    "Cancelled",
    "Client",
    "Closed",
    "Counting",
    "Deadlock",
    "Election",
    "ForeignLayout",
    "Forked",
    "Guarantees",
    "Guard",
    "Health",
    "Histogram",
    "Holder",
    "Inspection",
    "InternalError",
    "InvalidConfig",
    "Latch",
    "Leader",
    "Lock",
    "LockError",
    "LockLost",
    "LockTimeout",
    "Lost",
    "Metrics",
    "MultiGuard",
    "MultiLock",
    "NotOwned",
    "Once",
    "OverReleased",
    "Part",
    "ProtocolError",
    "QuorumFailed",
    "RLock",
    "RwLock",
    "Segment",
    "Semaphore",
    "Sharing",
    "Striped",
    "Unavailable",
    "Unsupported",
    "Waiting",
    "__version__",
    "connect",
    "restored",
]


def __getattr__(name: str) -> Any:
    # At its first use: most programs that have no event loop would only wait for asyncio to load.
    if name == "aio":
        import lockwright.aio

        return lockwright.aio
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
