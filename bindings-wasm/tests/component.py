"""The component as a Python program sees it: each `Instance` is one of its own, in Wasmtime."""

from __future__ import annotations

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
    """The component, compiled once."""

    def __init__(self, path: str) -> None:
        self.engine = Engine()
        self.component = Component.from_file(self.engine, path)
        self.linker = Linker(self.engine)
        self.linker.add_wasip2()


class Instance:
    """One instance with a network, or without, and one client in it."""

    def __init__(self, compiled: Compiled, address: str, network: bool = True) -> None:
        self.store = Store(compiled.engine)
        wasi = WasiConfig()
        if network:
            # No method of WasiConfig grants it yet.
            _bindings.wasi_config_inherit_network(wasi.ptr())
            _bindings.wasi_config_allow_ip_name_lookup(wasi.ptr(), True)
        self.store.set_wasi(wasi)
        self.instance = compiled.linker.instantiate(self.store, compiled.component)
        self.interface = self.instance.get_export_index(self.store, INTERFACE)
        self.client = self.call("[static]client.connect", address)

    def call(self, name: str, *arguments: Any) -> Any:
        index = self.instance.get_export_index(self.store, name, self.interface)
        function = self.instance.get_func(self.store, index)
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

    def resume(self, secret: str, **options: Any) -> Guard:
        return Guard(self, self.call("[method]client.resume", self.client, secret, self.options(**options)))

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

    def export(self, ttl: int) -> str:
        return self.instance.call("[method]guard.export", self.resource, ttl)

    def drop(self) -> None:
        self.resource.drop(self.instance.store)
