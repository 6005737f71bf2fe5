"""One of many leads: the sync class. `lockwright.aio` has its own."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Generic, Optional, TypeVar

from lockwright._errors import InvalidConfig, LockLost, Unavailable
from lockwright._lockwright import Client, Guard
from lockwright._records import Inspection, Span
from lockwright._several import shown

_C = TypeVar("_C")
_T = TypeVar("_T")

EVERY = 0.5
"""How often, in seconds, a store that does not answer is asked again."""


SHORTEST, LONGEST = 0.001, 86_400.0
"""How long an observer may wait between two looks, in seconds."""


OWN = frozenset({"fair", "rank", "label"})
"""Options of a lock that an election sets itself."""


@dataclass(frozen=True)
class Leader:
    """Who leads."""

    proclaims: str
    host: str
    pid: int
    language: str
    token: int
    """Its fencing token: higher with every leader."""
    leads_for: Optional[float]
    """Seconds, where the store can tell."""


def leader_of(seen: Inspection) -> Optional[Leader]:
    holder = seen.holder
    if holder is None:
        return None
    return Leader(holder.label, holder.host, holder.pid, holder.language, holder.first_token, holder.held_for)


def check_observer(known: object, every: object) -> None:
    """Raises for what is no token, and no time between two looks."""
    if not (known is None or isinstance(known, int)):
        raise TypeError(f"known must be the token of a leader or None, not {type(known).__name__}")
    if not isinstance(every, (int, float)):
        raise TypeError(f"every must be a number of seconds, not {type(every).__name__}")
    if not SHORTEST <= every <= LONGEST:
        raise InvalidConfig(f"every is {every!r}; it must be 0.001 to 86,400 seconds", operation="changed")


def is_news(leader: Optional[Leader], known: Optional[int]) -> bool:
    return (None if leader is None else leader.token) != known


class Candidacy(Generic[_C]):
    """What elections have in common."""

    __slots__ = ("_client", "_options", "name")

    name: str

    def __init__(self, client: _C, name: str, **options: Any) -> None:
        for own in OWN.intersection(options):
            raise TypeError(f"Client.election() got an unexpected keyword argument {own!r}: it is the election's own")
        # What is wrong with the others is told here, and not by the first candidate.
        getattr(client, "lock")(name, **options)
        self._client, self.name, self._options = client, name, options

    def __repr__(self) -> str:
        return f"<{shown(self)} {self.name!r} on {getattr(self._client, 'address')}>"


class Election(Candidacy[Client]):
    """The leader is whoever holds the lock of that name; candidates wait for it in order, where the store promises `fair` and the server allows it."""

    __slots__ = ()

    def campaign(self, proclaims: str, timeout: Optional[Span] = None) -> Guard:
        """Waits to lead, and proclaims a text of at most 128 bytes from then on. Releasing the guard resigns."""
        lock = self._client.lock(self.name, fair=False, rank=0, label=proclaims, **self._options)
        return lock._for_election().acquire_guard(timeout)

    def run(self, proclaims: str, work: Callable[[Guard], _T]) -> _T:
        """Campaigns, calls `work(guard)` while this one leads, and returns what the work returns; then it resigns.

        The work has to look at `guard.is_held`, or wait for `guard.lost`, and to return soon once leadership is lost: then this
        campaigns again, and what the work returned is dropped. A `LockLost` that the work raises because of that is no error. A
        store that does not answer is asked again every 0.5 s. Raises what the work raises, having resigned, and else what
        `campaign` raises, but neither `Unavailable` nor `LockLost`.
        """
        while True:
            try:
                guard = self.campaign(proclaims)
            except (Unavailable, LockLost):
                time.sleep(EVERY)
                continue
            try:
                with guard:
                    return work(guard)
            except LockLost:
                if guard.why_lost is None:
                    raise

    def leader(self) -> Optional[Leader]:
        """Who leads now."""
        return leader_of(self._client.lock(self.name, **self._options)._for_election().inspect())

    def changed(self, known: Optional[int] = None, every: float = 0.5) -> Optional[Leader]:
        """Waits until somebody else leads than the one with the token `known`, looking each `every` seconds, 0.001 to 86,400;
        None when nobody leads any more. Raises InvalidConfig for another `every`."""
        check_observer(known, every)
        while True:
            leader = self.leader()
            if is_news(leader, known):
                return leader
            time.sleep(every)
