"""Several locks that are held together, one of several, and the two of a read/write lock: the sync classes, and what those of `lockwright.aio` have in common with
them."""

from __future__ import annotations

from threading import get_ident
from types import TracebackType
from typing import Callable, Dict, Generic, List, Optional, Sequence, Tuple, Type, TypeVar, Union, final

from lockwright._errors import LockTimeout, first_of
from lockwright._records import Span
from lockwright._lockwright import Bundle, Client, Guard, Lock, Segments, _check_callable, _release_all


_G = TypeVar("_G")
_H = TypeVar("_H", bound="HeldTogether")
_Type = Optional[Type[BaseException]]
_Exc = Optional[BaseException]
_Traceback = Optional[TracebackType]


def shown(thing: object) -> str:
    aio = ".aio" if type(thing).__module__ == "lockwright.aio" else ""
    return f"lockwright{aio}.{type(thing).__name__}"


def given_back(ends: Sequence[Union[str, BaseException]]) -> str:
    """What became of several: the first that was not simply `released`. Raises the first error."""
    errors = [end for end in ends if isinstance(end, BaseException)]
    if errors:
        raise first_of(errors)
    return next((str(end) for end in ends if end != "released"), "released")


class HeldTogether:
    """What guards of several locks have in common."""

    __slots__ = ("_guards",)

    def __init__(self, guards: List[Guard]) -> None:
        self._guards = guards

    @property
    def tokens(self) -> Dict[str, int]:
        """The fencing token of each lock, by its name."""
        return {guard.name: guard.token for guard in self._guards}

    @property
    def is_held(self) -> bool:
        """Whether all are certainly held at this moment."""
        return all(guard.is_held for guard in self._guards)

    def remaining(self) -> float:
        """Seconds that all are certainly held without a further renewal."""
        return min(guard.remaining() for guard in self._guards)

    @property
    def why_lost(self) -> Optional[Tuple[str, str]]:
        """Which lock was lost, and why as `Guard.why_lost` has it; None while none is."""
        return next(((guard.name, guard.why_lost) for guard in self._guards if guard.why_lost is not None), None)

    def __repr__(self) -> str:
        return f"<lockwright.{type(self).__name__} {self._guards!r}>"


class MultiGuard(HeldTogether):
    """Several locks that are held together: the loss of one is the loss of all.

    Its guards are like any other: what is collected unreleased gives a `ResourceWarning` and is not renewed any more.
    """

    __slots__ = ()

    @property
    def guards(self) -> List[Guard]:
        """The guard of each lock, to be released each at its own time."""
        return list(self._guards)

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Has `callback(why)` called once, when the first of them is lost."""
        _check_callable("callback", callback)
        told: List[str] = []

        def once(why: str) -> None:
            if not told:
                told.append(why)
                callback(why)

        for guard in self._guards:
            guard.on_lost(once)

    def extend(self, ttl: Span) -> None:
        """Makes every lease last `ttl` seconds from now, and at every renewal."""
        for guard in self._guards:
            guard.extend(ttl)

    def release(self) -> str:
        """Gives all back, in one write. What the store found: of the first that was not simply `released`, if any.

        One that cannot be given back keeps no other from it: the first error is raised then, with a note (`__notes__`) on each
        of the others. Raises `NotOwned` for one that was released before.
        """
        return given_back(_release_all(self._guards, False))

    def __enter__(self) -> MultiGuard:
        return self

    def __exit__(self, exc_type: _Type = None, exc: _Exc = None, traceback: _Traceback = None, /) -> None:
        ends = _release_all(self._guards, True)
        # A loss is an error of the block, unless it has one already.
        if exc_type is None:
            given_back(ends)


class SeveralLocks(Generic[_H]):
    """What locks that are acquired together have in common."""

    __slots__ = ("_core", "_blocks")

    def __init__(self, core: Bundle) -> None:
        self._core = core
        self._blocks: List[Tuple[int, _H]] = []

    def _began(self, who: int, guard: _H) -> _H:
        self._blocks.append((who, guard))
        return guard

    def _ended(self, who: int) -> _H:
        """What the innermost block of `who` took. A block that began elsewhere ends here as well: where it is not known which, one
        that holds nothing any more goes before one that does."""
        blocks = list(self._blocks)
        mine = [block for block in blocks if block[0] == who]
        over = [block for block in blocks if not block[1].is_held]
        ended = (mine or over or blocks)[-1]
        self._blocks.remove(ended)
        return ended[1]

    @property
    def names(self) -> List[str]:
        """Each name once, in the order in which they are taken."""
        return self._core.names

    def __repr__(self) -> str:
        return f"<{shown(self)} {self.names!r} on {self._core.address}>"


class MultiLock(SeveralLocks[MultiGuard]):
    """Several named locks that are acquired together: all or none, in an order in which nobody deadlocks."""

    __slots__ = ()

    def acquire_guard(self, timeout: Optional[Span] = None) -> MultiGuard:
        """Waits until all are held. Raises `LockTimeout` when others held one of them all the time: then none is."""
        return MultiGuard(self._core.acquire(timeout))

    def try_acquire(self) -> Optional[MultiGuard]:
        """All of them, if all are free."""
        try:
            return MultiGuard(self._core.acquire(0))
        except LockTimeout:
            return None

    def __enter__(self) -> MultiGuard:
        return self._began(get_ident(), self.acquire_guard())

    def __exit__(self, exc_type: _Type = None, exc: _Exc = None, traceback: _Traceback = None, /) -> None:
        self._ended(get_ident()).__exit__(exc_type, exc, traceback)


class BothParts(Generic[_G]):
    """What read/write locks have in common: two locks of one name."""

    __slots__ = ("_read", "_write", "__weakref__")

    def __init__(self, read: _G, write: _G) -> None:
        self._read, self._write = read, write

    @property
    def name(self) -> str:
        """Its name, without the prefix of the address."""
        name: str = getattr(self._write, "name")
        return name

    def read(self) -> _G:
        """The lock of readers: held by any number at once, while nobody writes."""
        return self._read

    def write(self) -> _G:
        """The lock of the writer, who is alone."""
        return self._write

    def __repr__(self) -> str:
        return repr(self._write).replace("Lock", "RwLock", 1)


@final
class RwLock(BothParts[Lock]):
    """A named read/write lock, of which `read()` and `write()` are locks like any other."""

    __slots__ = ()


class Segmented(Generic[_G]):
    """What segments that are held have in common."""

    __slots__ = ("_core", "index", "guard")

    index: int
    """Which segment it is, from 0."""

    guard: _G

    def __init__(self, core: Segments, index: int, guard: _G) -> None:
        self._core, self.index, self.guard = core, index, guard

    @property
    def token(self) -> int:
        """The fencing token."""
        token: int = getattr(self.guard, "token")
        return token

    def mark_sold_out(self) -> None:
        """Nothing is left in it: it will not be offered again. It is still to be released."""
        self._core.mark_sold_out(self.index)

    def __repr__(self) -> str:
        return f"<{shown(self)} {self.index}: {self.guard!r}>"


class Segment(Segmented[Guard]):
    """A segment that is held. Its `guard` is like any other; leaving the `with` block releases it."""

    __slots__ = ()

    def sold_out(self) -> str:
        """Nothing is left in it: it is given back, and not offered again."""
        self.mark_sold_out()
        return self.guard.release()

    def release(self) -> str:
        """Gives it back, as `Guard.release` does."""
        return self.guard.release()

    def __enter__(self) -> Segment:
        self.guard.__enter__()
        return self

    def __exit__(self, exc_type: _Type = None, exc: _Exc = None, traceback: _Traceback = None, /) -> None:
        self.guard.__exit__(exc_type, exc, traceback)


class Striping:
    """What hot locks that are cut into segments have in common."""

    __slots__ = ("_core",)

    def __init__(self, core: Segments) -> None:
        self._core = core

    @property
    def count(self) -> int:
        """How many segments there are."""
        return self._core.count

    def index_for(self, key: str) -> int:
        """The segment that `key` belongs to: the same in every language."""
        return self._core.index_for(key)

    def restock(self) -> None:
        """Forgets what is sold out: there is something again."""
        self._core.restock()

    def __repr__(self) -> str:
        return f"<{shown(self)} of {self.count} segments on {self._core.address}>"


class Striped(Striping):
    """A hot lock cut into segments. What is sold out is known to this object, and to no other process."""

    __slots__ = ()

    def across(self, *others: Client) -> Striped:
        """The same segments at more stores, so that none has all the load: those of this one and of `others`, in turn.

        Every process must name the same stores in the same order. One that cannot be reached is left out for ten seconds,
        while others answer. Raises `InvalidConfig` for more stores than segments, and `Unsupported` where another store
        cannot do what the options ask for.
        """
        return Striped(self._core.across(others))

    def any(self, timeout: Optional[Span] = None) -> Optional[Segment]:
        """A free segment, or the first to be had where none is free; None once all are sold out.

        Raises `LockTimeout` when others held them all the time.
        """
        found = self._core.any(timeout)
        return None if found is None else Segment(self._core, *found)

    def for_key(self, key: str) -> Lock:
        """The lock of the segment that `key` belongs to."""
        return self._core.lock(self.index_for(key))
