"""Ready-made checks for what a lock protects, which refuse a holder that was stopped past its lease.

All of them admit the token that was seen last, since a holder may write more than once, and refuse lower ones.
"""

from __future__ import annotations

from typing import Optional, Tuple

from lockwright._lockwright import _HEADER, _SET_SCRIPT, header_value, key_range, read_header, sql_condition

__all__ = ["HEADER", "SET_SCRIPT", "Fence", "Stale", "header_value", "key_range", "read_header", "sql_condition"]

HEADER: str = _HEADER
"""The name of a request's header that carries the token."""

SET_SCRIPT: str = _SET_SCRIPT
"""For `EVAL`, with the key of the value, the key of its highest token (in the same slot) and the arguments token and value:
sets both and returns 1, or returns 0 where a higher token was seen."""


class Stale(Exception):
    """The token is lower than one that was seen before: whoever shows it has lost the lock."""


class Fence:
    """The highest token that something has seen: for whatever keeps its state in memory."""

    __slots__ = ("highest",)

    highest: Optional[Tuple[int, int]]
    """Epoch and token."""

    def __init__(self, highest: Optional[Tuple[int, int]] = None) -> None:
        self.highest = highest

    def admit(self, token: int, epoch: int = 0) -> None:
        """Takes note of the token. Raises `Stale` when a higher one was seen."""
        if self.highest is not None and (epoch, token) < self.highest:
            raise Stale(f"the token {token} is stale: {self.highest[1]} was seen already; its holder has lost the lock")
        self.highest = (epoch, token)
