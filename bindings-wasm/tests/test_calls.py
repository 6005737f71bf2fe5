"""Calls at random, of every function and with anything that its types let through: each is answered, or refused with an error of the
interface, and the memory of the instance does not grow. LOCKWRIGHT_TEST_CALLS says how many."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from typing import Any, Callable

import lockwright
from component import Failed, Instance, Record
from conftest import Connect

CALLS = int(os.environ.get("LOCKWRIGHT_TEST_CALLS", "4000"))
# An instance begins with less than a tenth of it.
MEMORY = 16 << 20
# So many of each kind are there at a time.
KEPT = 12

NAMES = ("x", "y", "{z}", "订单", "", "a" * 1025, "tab\there", "\0", "%7D", "lockwright-ping")
TEXTS = (*NAMES, "native", "string", "redisson", "redis-py", "spring", "leader", "!")
SPANS = (0, 1, 19, 20, 21, 1_000, 30_000, 86_400_000, 86_400_001, 1 << 32, (1 << 63) - 1, (1 << 64) - 1)
NUMBERS = (0, 1, 2, 3, 1_000, 1_000_000, 1_000_001, (1 << 32) - 1)
SCHEMES = ("redis://", "rediss://", "redis+cluster://", "memory://", "", "redis:", "http://", "redis://u:p@", "redis://[::1", "redis://127.0.0.1:1/")


class Caller:
    """One instance, and what it has."""

    def __init__(self, instance: Instance, seed: int) -> None:
        self.instance, self.dice = instance, random.Random(seed)
        self.secrets = ["lw1.none"]
        self.kept: dict[str, list[Any]] = {}
        self.refused: dict[str, int] = {}

    def text(self) -> str:
        if self.dice.random() < 0.8:
            return self.dice.choice(TEXTS)
        letters = (chr(self.dice.choice((self.dice.randrange(0x80), self.dice.randrange(0xD000)))) for _ in range(self.dice.randrange(60)))
        return "".join(letters)

    def name(self) -> str:
        return self.dice.choice(NAMES) if self.dice.random() < 0.3 else self.dice.choice("xyz")

    def span(self) -> int:
        return self.dice.choice(SPANS)

    def number(self) -> int:
        return self.dice.choice(NUMBERS)

    def maybe(self, make: Callable[[], Any], often: float = 0.3) -> Any:
        return make() if self.dice.random() < often else None

    def moment(self) -> int:
        """A time limit that is over soon: nobody else gives anything back meanwhile."""
        return int(self.dice.random() < 0.1)

    def options(self) -> Record:
        often = self.dice.choice((0, 0, 0.1, 0.5))
        return self.instance.options(
            ttl=self.maybe(self.span, often),
            renew=self.maybe(lambda: self.dice.random() < 0.5, often),
            max_hold=self.maybe(self.span, often),
            fair=self.maybe(lambda: self.dice.random() < 0.5, often),
            rank=self.maybe(lambda: self.dice.randrange(256), often),
            layout=self.maybe(self.text, often),
            format=self.maybe(self.text, often),
            label=self.maybe(self.text, often),
        )

    def certificates(self) -> Record:
        given = Record()
        given.ca, given.cert, given.key = (self.maybe(self.text, 0.1) for _ in range(3))
        return given

    def permits(self) -> Record:
        given = Record()
        given.take, given.lock = self.maybe(self.number), self.options()
        return given

    def one(self, kind: str) -> Any:
        """One of that kind that there is, made if there is none."""
        while not self.kept.get(kind):
            self.make(kind)
        return self.dice.choice(self.kept[kind])

    def keep(self, kind: str, resource: Any) -> None:
        if resource is None:
            return
        kept = self.kept.setdefault(kind, [])
        kept.append(resource)
        if len(kept) > KEPT:
            kept.pop(self.dice.randrange(KEPT)).drop(self.instance.store)

    def make(self, kind: str | None = None) -> None:
        """Something of that kind or of any, if what is chosen for it can be."""
        client, call = self.instance.client, self.instance.call
        makers: dict[str, Callable[[], Any]] = {
            "client": lambda: call("[static]client.connect-with", self.dice.choice(SCHEMES) + self.text(), self.certificates()),
            "lock": lambda: call("[method]client.lock", client, self.name(), self.options()),
            "rwlock": lambda: call("[method]client.rwlock", client, self.name(), self.options()),
            "semaphore": lambda: call("[method]client.semaphore", client, self.name(), self.number(), self.permits()),
            "latch": lambda: call("[method]client.latch", client, self.name(), self.number(), self.maybe(self.span)),
            "barrier": lambda: call("[method]client.barrier", client, self.name(), self.number(), self.maybe(self.span)),
            "election": lambda: call("[method]client.election", client, self.name(), self.options()),
            "multi-lock": lambda: call("[method]client.multi-lock", client, [self.name() for _ in range(self.dice.randrange(4))], self.options()),
            "once": lambda: call("[method]client.once", client, self.name(), self.dice.random() < 0.5, self.options()),
        }
        kind = kind or self.dice.choice(list(makers))
        try:
            self.keep(kind, makers[kind]())
        except Failed as failed:
            self.count(failed)

    def count(self, failed: Failed) -> None:
        assert failed.code and failed.advice and str(failed), "an error says what happened"
        self.refused[failed.case] = self.refused.get(failed.case, 0) + 1

    def ask(self, kind: str, method: str, *arguments: Any) -> Any:
        return self.instance.call(f"[method]{kind}.{method}", self.one(kind), *arguments)

    def held(self, guard: Any) -> None:
        self.keep("guard", guard)

    def several(self, guards: Any) -> None:
        self.keep("multi-guard", guards)

    def exported(self, secret: str) -> None:
        self.secrets.append(secret)

    def anything(self) -> None:
        """One call, and what it returned is kept if it can be."""
        client = self.instance.client
        calls: list[Callable[[], Any]] = [
            lambda: self.held(self.ask("lock", "acquire", self.moment())),
            lambda: self.held(self.ask("lock", "try-acquire")),
            lambda: self.keep("lock", self.ask("rwlock", self.dice.choice(("read", "write")))),
            lambda: self.keep("lock", self.ask("semaphore", "permits")),
            lambda: self.ask("semaphore", "resize", self.number()),
            lambda: self.ask("latch", "wait", self.moment()),
            lambda: self.ask("latch", self.dice.choice(("count-down", "count"))),
            lambda: self.ask("latch", "try-set-count", self.number()),
            lambda: self.ask("barrier", "wait", self.moment()),
            lambda: self.ask("barrier", "waiting"),
            lambda: self.held(self.ask("election", "campaign", self.text(), self.moment())),
            lambda: self.ask("election", "leader"),
            lambda: self.ask("election", "changed", self.span(), self.maybe(self.span)),
            lambda: self.several(self.ask("multi-lock", "acquire", self.moment())),
            lambda: self.several(self.ask("multi-lock", "try-acquire")),
            lambda: self.held(self.ask("once", "claim", self.dice.choice(("fresh", "stale", "missing")), self.moment())),
            lambda: self.held(self.instance.call("[method]client.resume", client, self.dice.choice((*self.secrets[-4:], self.text())), self.options())),
            lambda: self.instance.call("[method]client.inspect", client, self.name()),
            lambda: self.instance.call("[method]client.list", client),
            lambda: self.instance.call("[method]client.ping", client),
            lambda: self.instance.call("[method]client.break-lock", client, self.name(), self.span()),
            lambda: self.instance.call("[method]client.guarantees", client),
        ]
        if self.kept.get("guard"):
            calls += [
                lambda: self.ask("guard", self.dice.choice(("name", "token", "remaining", "lost"))),
                lambda: self.ask("guard", "renew", self.maybe(self.span)),
                lambda: self.ask("guard", "release"),
                lambda: self.ask("guard", self.dice.choice(("downgrade", "try-upgrade"))),
                lambda: self.exported(self.ask("guard", "export", self.span())),
            ]
        if self.kept.get("multi-guard"):
            calls += [
                lambda: self.ask("multi-guard", self.dice.choice(("tokens", "remaining", "lost", "release"))),
                lambda: self.ask("multi-guard", "renew", self.maybe(self.span)),
            ]
        if self.dice.random() < 0.3:
            self.make()
            return
        try:
            self.dice.choice(calls)()
        except Failed as failed:
            self.count(failed)


def test_calls_at_random_are_answered_or_refused(connect: Connect, native: lockwright.Client) -> None:
    seed = random.randrange(1 << 32)
    caller = Caller(connect(memory=MEMORY), seed)
    for number in range(CALLS):
        try:
            caller.anything()
        except Exception as error:
            raise AssertionError(f"call {number} of seed {seed}") from error
    assert {"timeout", "invalid-config", "unsupported", "not-owned", "foreign-layout"} <= set(caller.refused), caller.refused
    assert "internal" not in caller.refused, f"seed {seed}"
    caller.instance.close()
    # What was exported last, and resumed by nobody, is held on purpose.
    for secret in caller.secrets:
        with suppress(lockwright.NotOwned, lockwright.InvalidConfig):
            native.resume(secret).release()
    assert [name for name in native.list() if native.inspect(name).holder] == [], f"seed {seed}"
