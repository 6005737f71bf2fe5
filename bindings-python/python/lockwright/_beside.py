"""What is known of an object, kept beside it."""

from __future__ import annotations

import weakref
from typing import Dict, Generic, Iterator, Optional, Tuple, TypeVar

T = TypeVar("T")


class _Entry(weakref.ref, Generic[T]):  # type: ignore[type-arg]
    __slots__ = ("address", "value")
    address: int
    value: T


class Beside(Generic[T]):
    """A value for each of some objects, forgotten with them.

    By address, so that a look costs no call of the objects' own: `WeakKeyDictionary` hashes and compares them. An address is another
    object's later, and so it is forgotten with the object.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: Dict[int, _Entry[T]] = {}

    def get(self, of: object) -> Optional[T]:
        entry = self._entries.get(id(of))
        return None if entry is None else entry.value

    def put(self, of: object, value: T) -> None:
        entry: _Entry[T] = _Entry(of, self._forget)
        entry.address, entry.value = id(of), value
        self._entries[id(of)] = entry

    def _forget(self, entry: _Entry[T]) -> None:
        self._entries.pop(entry.address, None)

    def clear(self) -> None:
        self._entries.clear()

    def __iter__(self) -> Iterator[Tuple[object, T]]:
        """The objects that there still are, and their values."""
        for entry in list(self._entries.values()):
            of = entry()
            if of is not None:
                yield of, entry.value
