"""The component as a Python program sees it: each `Instance` is one of its own, in Wasmtime."""

from __future__ import annotations

import os
from typing import Any

from wasmtime import Engine, Store, WasiConfig, _bindings
from wasmtime.component import Component, Linker, Record, Variant

INTERFACE = "lockwright:locks/locks@0.1.0"
OPTIONS = ("ttl", "renew", "max-hold", "fair", "rank", "layout", "format", "label")


class Failed(Exception):
    """An error of the component's."""

    def __init__(self, error: Any) -> None:
        super().__init__(error.payload.text)
        self.case: str = error.tag
        self.code: str = error.payload.code
        self.advice: str = error.payload.advice
        self.retryable: bool = error.payload.retryable


class Compiled:
    """The component, compiled once: what that made lies beside it for other processes."""

    def __init__(self, path: str) -> None:
        self.engine = Engine()
        made = f"{path}.{os.stat(path).st_mtime_ns}.compiled"
        if not os.path.exists(made):
            scratch = f"{made}.{os.getpid()}"
            with open(scratch, "wb") as file:
                file.write(Component.from_file(self.engine, path).serialize())
            os.replace(scratch, made)
        self.component = Component.deserialize_file(self.engine, made)
        self.linker = Linker(self.engine)
        self.linker.add_wasip2()


class Instance:
    """One instance with a network, or without, and one client in it."""

    def __init__(
        self,
        compiled: Compiled,
        address: str,
        network: bool = True,
        memory: int = -1,
        certificates: dict[str, str] | None = None,
    ) -> None:
        self.store = Store(compiled.engine)
        self.store.set_limits(memory_size=memory)
        wasi = WasiConfig()
        if network:
            # No method of WasiConfig grants it yet.
            _bindings.wasi_config_inherit_network(wasi.ptr())
            _bindings.wasi_config_allow_ip_name_lookup(wasi.ptr(), True)
        self.store.set_wasi(wasi)
        self.instance = compiled.linker.instantiate(self.store, compiled.component)
        self.interface = self.instance.get_export_index(self.store, INTERFACE)
        self.functions: dict[str, Any] = {}
        if certificates is None:
            self.client = self.call("[static]client.connect", address)
        else:
            given = Record()
            for name in ("ca", "cert", "key"):
                setattr(given, name, certificates.get(name))
            self.client = self.call("[static]client.connect-with", address, given)

    def call(self, name: str, *arguments: Any) -> Any:
        if name not in self.functions:
            index = self.instance.get_export_index(self.store, name, self.interface)
            self.functions[name] = self.instance.get_func(self.store, index)
        function = self.functions[name]
        result = function(self.store, *arguments)
        function.post_return(self.store)
        # Where both sides of a result have the same shape Wasmtime says which it is.
        if isinstance(result, Variant) and result.tag in ("ok", "err"):
            result = result.payload
        if isinstance(result, Variant) and hasattr(result.payload, "advice"):
            raise Failed(result)
        return result

    def options(self, **given: Any) -> Record:
        record = Record()
        for name in OPTIONS:
            setattr(record, name, given.get(name.replace("-", "_")))
        return record

    def lock(self, name: str, **options: Any) -> Lock:
        return Lock(self, self.call("[method]client.lock", self.client, name, self.options(**options)))

    def rwlock(self, name: str, **options: Any) -> RwLock:
        return RwLock(self, self.call("[method]client.rwlock", self.client, name, self.options(**options)))

    def semaphore(self, name: str, permits: int, take: int | None = None, **options: Any) -> Semaphore:
        given = Record()
        given.take, given.lock = take, self.options(**options)
        return Semaphore(self, self.call("[method]client.semaphore", self.client, name, permits, given))

    def latch(self, name: str, count: int, idle: int | None = None) -> Latch:
        return Latch(self, self.call("[method]client.latch", self.client, name, count, idle))

    def barrier(self, name: str, parties: int, ttl: int | None = None) -> Barrier:
        return Barrier(self, self.call("[method]client.barrier", self.client, name, parties, ttl))

    def election(self, name: str, **options: Any) -> Election:
        return Election(self, self.call("[method]client.election", self.client, name, self.options(**options)))

    def multi_lock(self, names: list[str], **options: Any) -> MultiLock:
        return MultiLock(self, self.call("[method]client.multi-lock", self.client, names, self.options(**options)))

    def once(self, name: str, waits: bool = False, **options: Any) -> Once:
        return Once(self, self.call("[method]client.once", self.client, name, waits, self.options(**options)))

    def resume(self, secret: str, **options: Any) -> Guard:
        return Guard(self, self.call("[method]client.resume", self.client, secret, self.options(**options)))

    def ping(self) -> Any:
        return self.call("[method]client.ping", self.client)

    def inspect(self, name: str) -> Any:
        return self.call("[method]client.inspect", self.client, name)

    def list(self) -> list[str]:
        return self.call("[method]client.list", self.client)

    def break_lock(self, name: str, expected_token: int) -> bool:
        return self.call("[method]client.break-lock", self.client, name, expected_token)

    def close(self) -> None:
        self.call("[method]client.close", self.client)


class Lock:
    def __init__(self, instance: Instance, lock: Any) -> None:
        self.instance, self.resource = instance, lock

    def acquire(self, timeout: int | None = None) -> Guard:
        return Guard(self.instance, self.instance.call("[method]lock.acquire", self.resource, timeout))

    def try_acquire(self) -> Guard | None:
        guard = self.instance.call("[method]lock.try-acquire", self.resource)
        return guard and Guard(self.instance, guard)


class Resource:
    """One of the component's own; `ask` calls a method of it."""

    kind = ""

    def __init__(self, instance: Instance, resource: Any) -> None:
        self.instance, self.resource = instance, resource

    def ask(self, method: str, *arguments: Any) -> Any:
        return self.instance.call(f"[method]{self.kind}.{method}", self.resource, *arguments)


class RwLock(Resource):
    kind = "rwlock"

    def read(self) -> Lock:
        return Lock(self.instance, self.ask("read"))

    def write(self) -> Lock:
        return Lock(self.instance, self.ask("write"))


class Semaphore(Resource):
    kind = "semaphore"

    def permits(self) -> Lock:
        return Lock(self.instance, self.ask("permits"))

    def resize(self, permits: int) -> None:
        self.ask("resize", permits)


class Latch(Resource):
    kind = "latch"

    def wait(self, timeout: int | None = None) -> bool:
        return self.ask("wait", timeout)

    def count_down(self) -> int:
        return self.ask("count-down")

    def count(self) -> int:
        return self.ask("count")

    def try_set_count(self, count: int) -> bool:
        return self.ask("try-set-count", count)


class Barrier(Resource):
    kind = "barrier"

    def wait(self, timeout: int | None = None) -> Any:
        return self.ask("wait", timeout)

    def waiting(self) -> int:
        return self.ask("waiting")


class Election(Resource):
    kind = "election"

    def campaign(self, proclaims: str, timeout: int | None = None) -> Guard:
        return Guard(self.instance, self.ask("campaign", proclaims, timeout))

    def leader(self) -> Any:
        return self.ask("leader")

    def changed(self, known: int | None, every: int | None = None) -> Any:
        return self.ask("changed", known, every)


class MultiLock(Resource):
    kind = "multi-lock"

    def names(self) -> list[str]:
        return self.ask("names")

    def acquire(self, timeout: int | None = None) -> MultiGuard:
        return MultiGuard(self.instance, self.ask("acquire", timeout))

    def try_acquire(self) -> MultiGuard | None:
        guard = self.ask("try-acquire")
        return guard and MultiGuard(self.instance, guard)


class MultiGuard(Resource):
    kind = "multi-guard"

    @property
    def tokens(self) -> dict[str, int]:
        return dict(self.ask("tokens"))

    @property
    def remaining(self) -> int:
        return self.ask("remaining")

    @property
    def lost(self) -> str | None:
        lost = self.ask("lost")
        return lost and lost[1]

    def renew(self, ttl: int | None = None) -> None:
        self.ask("renew", ttl)

    def release(self) -> str:
        outcome = self.ask("release")
        return getattr(outcome, "tag", outcome)


class Once(Resource):
    kind = "once"

    def claim(self, found: str, timeout: int | None = None) -> Guard | None:
        guard = self.ask("claim", found, timeout)
        return guard and Guard(self.instance, guard)


class Guard:
    def __init__(self, instance: Instance, guard: Any) -> None:
        self.instance, self.resource = instance, guard

    @property
    def token(self) -> int:
        return self.instance.call("[method]guard.token", self.resource)

    @property
    def remaining(self) -> int:
        return self.instance.call("[method]guard.remaining", self.resource)

    @property
    def lost(self) -> str | None:
        return self.instance.call("[method]guard.lost", self.resource)

    def renew(self, ttl: int | None = None) -> None:
        self.instance.call("[method]guard.renew", self.resource, ttl)

    def release(self) -> str:
        outcome = self.instance.call("[method]guard.release", self.resource)
        return getattr(outcome, "tag", outcome)

    def downgrade(self) -> None:
        self.instance.call("[method]guard.downgrade", self.resource)

    def try_upgrade(self) -> bool:
        return self.instance.call("[method]guard.try-upgrade", self.resource)

    def export(self, ttl: int) -> str:
        return self.instance.call("[method]guard.export", self.resource, ttl)

    def drop(self) -> None:
        self.resource.drop(self.instance.store)
