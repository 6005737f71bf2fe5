"""sqlalchemy-dlock's locks as a peer: a database's advisory locks, each hold on a connection of its own."""

from __future__ import annotations

import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any, Callable, Optional
from urllib.parse import urlsplit

from sqlalchemy import Engine, create_engine
from sqlalchemy_dlock import create_sadlock

sys.path.append(str(pathlib.Path(__file__).parents[2] / "shims"))
from python_common import now  # noqa: E402
from python_peer import TTL, Failed, Held, Peer, polled  # noqa: E402

POLL = 0.01
DRIVERS = {"postgres": "postgresql+psycopg", "mysql": "mysql+pymysql"}


class Pool:
    """Connections to the database; those that are in use end with the process."""

    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        address = f"{DRIVERS[parts.scheme]}://{parts.netloc}{parts.path}"
        self.engine: Engine = create_engine(address, isolation_level="AUTOCOMMIT", pool_size=50)

    def close(self) -> None:
        self.engine.dispose()


class Lock:
    """One lock of the library's, in a thread of its own: it knows by the thread whether it is held."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.thread = ThreadPoolExecutor(1)
        self.lock = self.do(lambda: create_sadlock(engine.connect(), name))

    def do(self, what: Callable[[], Any]) -> Any:
        return self.thread.submit(what).result()

    def close(self) -> None:
        self.do(self.lock.connection_or_session.close)
        self.thread.shutdown()


class SqlalchemyDlock(Peer):
    name, version = "sqlalchemy-dlock", version("sqlalchemy-dlock")

    def connect(self, uri: str) -> Pool:
        return Pool(uri)

    def acquire(self, client: Any, name: str, ttl: float, timeout: Optional[float]) -> Optional[Held]:
        lock = Lock(client.engine, name)
        if polled(lambda: lock.do(lambda: lock.lock.acquire(block=False)), timeout, POLL):
            return Held(lock, now(), TTL)
        lock.close()
        return None

    def release(self, held: Held) -> str:
        held.lock.do(held.lock.lock.release)
        held.lock.close()
        return "released"

    def extend(self, held: Held, ttl: float) -> None:
        raise Failed("unsupported", "its holds have no end")

    def owns(self, held: Held) -> bool:
        return bool(held.lock.do(lambda: held.lock.lock.locked))


if __name__ == "__main__":
    SqlalchemyDlock().main()
