"""One caller does what many want done: the sync class. `lockwright.aio` has its own."""

from __future__ import annotations

from typing import Callable, Generic, Optional, Tuple, TypeVar

from lockwright._lockwright import Lock, _check_callable
from lockwright._several import shown

T = TypeVar("T")
_L = TypeVar("_L")
_Look = TypeVar("_Look")
_Make = TypeVar("_Make")


class OneAtATime(Generic[_L, _Look, _Make]):
    """What jobs that one caller at a time does have in common."""

    __slots__ = ("_lock", "_look", "_make", "_waits")

    def __init__(self, lock: _L, look: _Look, make: _Make, waits: bool) -> None:
        _check_callable("look", look)
        _check_callable("make", make)
        if not isinstance(waits, bool):
            raise TypeError(f"waits must be a bool, not {type(waits).__name__}")
        self._lock, self._look, self._make, self._waits = lock, look, make, waits

    def __repr__(self) -> str:
        return f"<{shown(self)} {self._lock!r}>"


class Once(OneAtATime[Lock, Callable[[], Optional[Tuple[T, bool]]], Callable[[int], T]], Generic[T]):
    """A job that one caller at a time does, such as to rebuild a cache entry that expired.

    `look` gives None where there is no value that would do, else the value and whether it is fresh. `make` makes and keeps
    one; it is given the fencing token. Whoever gets the job looks once more first. If whoever has it dies, it goes to the next
    after the lock's `ttl` at most; if `make` raises, at once.
    """

    __slots__ = ()

    def get(self) -> T:
        """The value, fresh or as `make` made it; where somebody else makes it, the stale one, or what comes of waiting."""
        found = self._look()
        if found is not None and found[1]:
            return found[0]
        if found is not None and not self._waits:
            guard = self._lock.try_acquire()
            if guard is None:
                return found[0]
        else:
            guard = self._lock.acquire_guard()
        with guard:
            found = self._look()
            if found is not None and found[1]:
                return found[0]
            return self._make(guard.token)
