from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Guarantees:
    """What locks of a client promise."""

    store: str
    layout: str
    exclusive_until: str
    """Until when a holder is the only one: `deadline`, `store failover` or `clock skew`."""
    token: str
    """Until when fencing tokens rise: `always`, `with the store's clock`, `while the process lives` or `none`."""
    fair: bool
    """Whether `fair` can be had."""
    reentrant: bool
    """Whether `Client.rlock` can be had."""
    shared: bool
    """Whether other processes see the locks."""
    push: bool
    """Whether waiters are told when it is their turn; otherwise they ask again by a timer."""
    survives_disconnect: bool
    """Whether what is held survives the loss of a connection."""
    incarnation: bool
    """Whether a late release or renewal can never touch a later hold of the same owner."""
    notes: tuple[str, ...]
    """What else there is to know."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lock."""

    owner: str
    """A hash that tells two holders apart."""
    host: str
    pid: int
    language: str
    label: str
    held_for: Optional[float]
    """Seconds, where the store can tell."""
    remaining: float
    """Seconds that the lease still lasts at the store; `inf` for a lease of another library that has no end."""
    first_token: int
    """0 for a holder that uses another library."""
    last_token: int
    """A process that hands the lock on among its threads has several; `Client.break_lock` takes any of them."""


@dataclass(frozen=True)
class Inspection:
    """What is seen of a lock."""

    name: str
    layout: str
    holder: Optional[Holder]
    """`None` when the lock is free."""
    waiters: int
    """How many wait at the store."""
