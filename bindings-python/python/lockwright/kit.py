"""Ready-made checks for what a lock protects, which refuse a holder that was stopped past its lease, and locks that a transaction
of the caller's own has.

All checks admit the token that was seen last, since a holder may write more than once, and refuse lower ones.
"""

from __future__ import annotations

from typing import Any, Optional, Protocol, Tuple

from lockwright._lockwright import (
    _HEADER,
    _SET_SCRIPT,
    _checked_token,
    advisory_key,
    header_value,
    key_range,
    read_header,
    sql_condition,
)

__all__ = [
    "HEADER",
    "SET_SCRIPT",
    "Cursor",
    "Fence",
    "Stale",
    "advisory_key",
    "advisory_lock",
    "header_value",
    "key_range",
    "read_header",
    "row_lock",
    "sql_condition",
]

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
        """Raises `TypeError` and `InvalidConfig` for what is no epoch and token."""
        self.highest = None
        if highest is not None:
            epoch, token = highest
            self.highest = _checked_token(token, epoch)

    def admit(self, token: int, epoch: int = 0) -> None:
        """Takes note of the token. Raises `Stale` when a higher one was seen, `TypeError` and `InvalidConfig` for what is no token."""
        shown = _checked_token(token, epoch)
        if self.highest is not None and shown < self.highest:
            raise Stale(f"the token {token} is stale: {self.highest[1]} was seen already; its holder has lost the lock")
        self.highest = shown


class Cursor(Protocol):
    """A cursor of a driver as PEP 249 has it, whose parameters are written `%s`: psycopg, PyMySQL, mysqlclient and others."""

    @property
    def connection(self) -> Any:
        """Whose it is."""

    def execute(self, statement: Any, parameters: Any = ..., /) -> Any:
        """Has a statement done."""

    def fetchone(self) -> Any:
        """The next row of its answer; None when there is none."""


def advisory_lock(cursor: Cursor, key: str, *, wait: bool = True) -> bool:
    """Has the transaction of this cursor take the advisory lock of `key`, a lock's name with the address's prefix before it:
    until it commits or rolls back it and the holders of that lock in layout `advisory` exclude one another. Nothing renews it,
    and it has no fencing token. PostgreSQL.

    Who waits does so at the server, for as long as its `lock_timeout` says. Without `wait` it is False where another has it.
    Raises ValueError where each statement is a transaction (autocommit), and whatever the driver raises.
    """
    function = "pg_advisory_xact_lock" if wait else "pg_try_advisory_xact_lock"
    cursor.execute(f"SELECT {function}({advisory_key(key)})")
    has = cursor.fetchone()[0] is not False
    _check_open(cursor)
    return has


def row_lock(cursor: Cursor, key: str, *, wait: bool = True) -> bool:
    """The same by the row of `key` in the table `resource_lock`, for layout `for_update`. PostgreSQL, MySQL and MariaDB; without
    `wait` MySQL 8 or MariaDB 10.6.

    Who waits does so at the server, for as long as its `lock_timeout` or `innodb_lock_wait_timeout` says. Without `wait` it is
    False where another has it. Raises LookupError where there is no such row, ValueError where each statement is a transaction
    (autocommit), and whatever the driver raises.
    """
    row = "SELECT owner FROM resource_lock WHERE resource_name = %s"
    cursor.execute(f"{row} FOR UPDATE" + ("" if wait else " SKIP LOCKED"), (key,))
    has = cursor.fetchone() is not None
    _check_open(cursor)
    if not has:
        cursor.execute(row, (key,))
        if wait or cursor.fetchone() is None:
            raise LookupError(
                f"resource_lock has no row {key!r}; insert it in a transaction of its own before, with any owner, and leave it there"
            )
    return has


# Of what PostgreSQL's drivers and MySQL's tell of a connection.
_INTRANS, _SERVER_IN_TRANSACTION, _SERVER_AUTOCOMMIT = 2, 1, 2


def _check_open(cursor: Cursor) -> None:
    """Refuses a transaction that was over with its first statement, where the driver tells: psycopg and PyMySQL do."""
    connection = cursor.connection
    status = getattr(getattr(connection, "info", None), "transaction_status", None)
    flags = getattr(connection, "server_status", None)
    if isinstance(status, int):
        is_open = status == _INTRANS
    else:
        is_open = not isinstance(flags, int) or bool(flags & _SERVER_IN_TRANSACTION) or not flags & _SERVER_AUTOCOMMIT
    if not is_open:
        raise ValueError("the connection commits by itself, which has freed the lock already; begin a transaction first")
