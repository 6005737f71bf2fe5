"""A program that locks a row of its table in a transaction, as tutorials have it: to commit is to give the lock back."""

from __future__ import annotations

import pathlib
import sys
from typing import Any, Optional
from urllib.parse import unquote, urlsplit

import psycopg
import pymysql

sys.path.append(str(pathlib.Path(__file__).parents[2] / "shims"))
from python_common import now  # noqa: E402
from python_peer import TTL, Failed, Held, Peer, polled  # noqa: E402

POLL = 0.01
SELECT = "SELECT owner FROM resource_lock WHERE resource_name = %s FOR UPDATE NOWAIT"
INSERT = "INSERT INTO resource_lock (resource_name, owner) VALUES (%s, 'peer')"
TAKEN = (psycopg.errors.LockNotAvailable, psycopg.errors.UniqueViolation, pymysql.err.OperationalError, pymysql.err.IntegrityError)


def connected(uri: str) -> Any:
    parts = urlsplit(uri)
    host, port, database = parts.hostname or "", parts.port or 0, parts.path[1:]
    user, password = parts.username or "", unquote(parts.password or "")
    if parts.scheme == "mysql":
        # Else whoever finds no row keeps all others from making one beside it.
        settles = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
        return pymysql.connect(host=host, port=port, user=user, password=password, database=database, init_command=settles)
    return psycopg.connect(host=host, port=port, user=user, password=password, dbname=database)


class Client:
    def __init__(self, uri: str) -> None:
        self.uri = uri

    def close(self) -> None:
        """Each hold has a connection of its own."""


class ForUpdate(Peer):
    name, version = "sql-for-update", "1"

    def connect(self, uri: str) -> Client:
        return Client(uri)

    def acquire(self, client: Any, name: str, ttl: float, timeout: Optional[float]) -> Optional[Held]:
        connection = connected(client.uri)
        if polled(lambda: self.take(connection, name), timeout, POLL):
            return Held(connection, now(), TTL)
        connection.close()
        return None

    def take(self, connection: Any, name: str) -> bool:
        try:
            with connection.cursor() as cursor:
                cursor.execute(SELECT, (name,))
                if cursor.fetchone() is None:
                    cursor.execute(INSERT, (name,))
            return True
        except TAKEN:
            connection.rollback()
            return False

    def release(self, held: Held) -> str:
        held.lock.commit()
        held.lock.close()
        return "released"

    def extend(self, held: Held, ttl: float) -> None:
        raise Failed("unsupported", "its holds have no end")

    def owns(self, held: Held) -> bool:
        with held.lock.cursor() as cursor:
            cursor.execute("SELECT 1")
            return bool(cursor.fetchone())


if __name__ == "__main__":
    ForUpdate().main()
