"""Distributed locks that programs in every language share.

    import lockwright

    client = lockwright.connect("redis://localhost")
    with client.lock("orders:42", ttl=10) as guard:
        charge(fence=guard.token)

A `Lock` behaves as `threading.Lock`, an `RLock` as `threading.RLock`, over all processes that use the same store. What
is held is renewed until it is released; a process that dies holds it for `ttl` seconds at most.
"""

# The helpers that native code imports are loaded here, lest a fork catches another thread in the middle of that.
from lockwright import _guarded as _guarded
from lockwright import _herald as _herald

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
    ProtocolError,
    QuorumFailed,
    Unavailable,
    Unsupported,
)
from lockwright._lockwright import Client, Guard, Lock, Lost, RLock, __version__, connect
from lockwright._records import Guarantees, Holder, Inspection

__all__ = [
    "AuthFailed",
    "Cancelled",
    "Client",
    "Closed",
    "Deadlock",
    "ForeignLayout",
    "Forked",
    "Guarantees",
    "Guard",
    "Holder",
    "Inspection",
    "InternalError",
    "InvalidConfig",
    "Lock",
    "LockError",
    "LockLost",
    "LockTimeout",
    "Lost",
    "NotOwned",
    "ProtocolError",
    "QuorumFailed",
    "RLock",
    "Unavailable",
    "Unsupported",
    "__version__",
    "connect",
]
