"""Locks that a transaction of the caller's own has: it and the clients exclude one another."""

from __future__ import annotations

import itertools
import os
import threading
from typing import Any, Callable, Iterator
from urllib.parse import unquote, urlsplit

import lockwright
import psycopg
import pymysql
import pytest
from lockwright import kit

SERVERS = [f"LOCKWRIGHT_TEST_{name}" for name in ("POSTGRES", "MARIADB")]
SERVERS = [name for name in SERVERS if name in os.environ]
if not SERVERS:
    pytest.skip("no database was started", allow_module_level=True)

serial = itertools.count()


class Database:
    def __init__(self, server: str) -> None:
        self.uri = os.environ[server]
        self.has_advisory_locks = self.uri.startswith("postgres")

    def connected(self, autocommit: bool = False) -> Any:
        parts = urlsplit(self.uri)
        place = {"host": parts.hostname or "", "port": parts.port or 0, "user": parts.username or "", "password": unquote(parts.password or "")}
        if self.has_advisory_locks:
            return psycopg.connect(dbname=parts.path[1:], autocommit=autocommit, **place)
        return pymysql.connect(database=parts.path[1:], autocommit=autocommit, **place)

    def client(self, layout: str) -> lockwright.Client:
        return lockwright.connect(f"{self.uri}{'&' if '?' in self.uri else '?'}layout={layout}")

    def row(self) -> str:
        """The name of a row that is there."""
        name = f"transaction-{os.getpid()}-{next(serial)}"
        connection = self.connected()
        connection.cursor().execute("INSERT INTO resource_lock (resource_name, owner) VALUES (%s, 'a test')", (name,))
        connection.commit()
        connection.close()
        return name


@pytest.fixture(params=SERVERS)
def database(request: pytest.FixtureRequest) -> Database:
    return Database(request.param)


Ways = Iterator[tuple[str, str, Callable[..., bool]]]


def ways(database: Database) -> Ways:
    """A layout, a name, and what takes the lock of that name for it."""
    yield "for_update", database.row(), kit.row_lock
    if database.has_advisory_locks:
        yield "advisory", f"transaction-{os.getpid()}-{next(serial)}", kit.advisory_lock


def test_what_a_transaction_has_a_client_has_not_and_the_other_way_round(database: Database) -> None:
    for layout, name, take in ways(database):
        connection = database.connected()
        cursor = connection.cursor()
        with database.client(layout) as client:
            lock = client.lock(name)
            for end in (connection.commit, connection.rollback):
                assert take(cursor, name)
                assert take(cursor, name, wait=False)
                assert lock.try_acquire() is None
                end()
                with lock:
                    assert not take(cursor, name, wait=False)
                    connection.rollback()
        connection.close()


def test_who_waits_has_it_when_a_client_gives_it_back(database: Database) -> None:
    for layout, name, take in ways(database):
        connection = database.connected()
        with database.client(layout) as client:
            guard = client.lock(name).acquire_guard()
            waits = threading.Thread(target=take, args=(connection.cursor(), name))
            waits.start()
            watcher = database.connected(autocommit=True)
            while not is_awaited(database, watcher.cursor()):
                pass
            watcher.close()
            guard.release()
            waits.join()
            assert client.lock(name).try_acquire() is None
            connection.close()
            with client.lock(name):
                pass


def is_awaited(database: Database, watcher: Any) -> bool:
    """Whether a session of the tests' user waits for a lock."""
    if database.has_advisory_locks:
        watcher.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('advisory', 'transactionid', 'tuple')")
    else:
        watcher.execute("SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'SELECT owner FROM resource_lock%FOR UPDATE'")
    return bool(watcher.fetchone()[0])


def test_a_row_that_is_missing_is_not_made(database: Database) -> None:
    connection = database.connected()
    for wait in (True, False):
        with pytest.raises(LookupError, match="resource_lock has no row 'nobody made it'"):
            kit.row_lock(connection.cursor(), "nobody made it", wait=wait)
    connection.close()


def test_a_transaction_that_is_over_at_once_has_nothing(database: Database) -> None:
    for _, name, take in ways(database):
        connection = database.connected(autocommit=True)
        with pytest.raises(ValueError, match="commits by itself"):
            take(connection.cursor(), name)
        connection.cursor().execute("BEGIN")
        assert take(connection.cursor(), name)
        connection.close()
