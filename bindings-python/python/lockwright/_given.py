"""What a program gave that is used later, when it is too late to say that it is of no use."""

from __future__ import annotations

from typing import Any


def check_callable(what: str, given: Any) -> None:
    if not callable(given):
        raise TypeError(f"{what} must be callable, not {type(given).__name__}")


def check_flag(what: str, given: Any) -> None:
    if not isinstance(given, bool):
        raise TypeError(f"{what} must be a bool, not {type(given).__name__}")


def check_blocking(given: Any) -> None:
    """Programs of `threading` say it by 1 and 0, too; any other number was meant as a time limit."""
    if not (isinstance(given, int) and given in (0, 1)):
        hint = f"; if that is a time limit, write timeout={given}" if isinstance(given, (int, float)) else ""
        raise TypeError(f"blocking must be True or False, not {given!r}{hint}")
