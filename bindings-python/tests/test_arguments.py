"""What no method can use: it is refused by a type that says so, at once, and leaves nothing."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import Any, Callable, Dict, Iterator, List, Tuple, Type

import lockwright
import lockwright.aio
from lockwright import kit

from conftest import Run

NAN, INFINITY = float("nan"), float("inf")
HUGE = [2**32, 2**64, 10**400]
NO_TEXT: List[Any] = [5, 1.5, True, b"x", ["x"], {}, object()]
NO_NUMBER: List[Any] = ["5", "", 1.5, NAN, INFINITY, b"5", [5], {}, object()]
NO_FUNCTION: List[Any] = [5, "x", [], {}, object()]
NO_FLAG: List[Any] = [0, 1, "true", [], object()]
NO_SPAN: List[Any] = [b"5", [5], {}, object(), print]

# Of a type that cannot be right, and of one that can.
Wrong = Tuple[List[Any], List[Any]]
NAME: Wrong = ([None, *NO_TEXT], ["", "x" * 5_000, "a\0b", "\ud800"])
TEXT: Wrong = ([None, *NO_TEXT], ["\ud800"])
COUNT: Wrong = ([None, *NO_NUMBER], [-1, 0, -(10**400), *HUGE])
TOKEN: Wrong = ([None, *NO_NUMBER], [-1, -(10**400), 2**64, 10**400])
SPAN: Wrong = (NO_SPAN, [NAN, INFINITY, -1, 10**400, "", "5x", "soon"])
TTL: Wrong = (SPAN[0], [0, 0.019, 86_401, *SPAN[1]])
LIMIT: Wrong = (NO_SPAN, [NAN, "", "5x", "soon"])
FUNCTION: Wrong = (NO_FUNCTION, [])
FLAG: Wrong = (NO_FLAG, [])
OPTIONS: Dict[str, Wrong] = {
    "ttl": TTL,
    "max_hold": SPAN,
    "renew": FLAG,
    "reentrant": FLAG,
    "label": (NO_TEXT, ["x" * 129, "\ud800", "a\nb"]),
    "layout": (NO_TEXT, ["\ud800"]),
    "nonsense": ([5], []),
}
OF_LOCKS = {**OPTIONS, "fair": FLAG, "rank": (NO_NUMBER, [-1, 10, 10**400])}
OF_ELECTIONS: Dict[str, Wrong] = {**OPTIONS, "fair": ([True], []), "rank": ([0], []), "label": (["x"], [])}

Row = Tuple[str, Wrong, Callable[[Any], Any]]


def rows(here: Any) -> List[Row]:
    """Of both faces: what is asked, what it cannot use, and what asks."""
    return [
        ("lock", NAME, here.lock),
        ("rlock", NAME, here.rlock),
        ("rwlock", NAME, here.rwlock),
        ("semaphore", NAME, here.semaphore),
        ("permits", COUNT, lambda given: here.semaphore("x", given)),
        ("take", COUNT, lambda given: here.semaphore("x", take=given)),
        ("resize", COUNT, lambda given: here.semaphore("x").resize(given)),
        ("semaphore.release", (COUNT[0], [-1, 0]), lambda given: here.semaphore("x").release(given)),
        ("latch", NAME, lambda given: here.latch(given, 1)),
        ("latch.count", COUNT, lambda given: here.latch("x", given)),
        ("latch.idle", SPAN, lambda given: here.latch("x", 1, idle=given)),
        ("latch.wait", LIMIT, lambda given: here.latch("x", 1).wait(given)),
        ("try_set_count", COUNT, lambda given: here.latch("x", 1).try_set_count(given)),
        ("barrier", NAME, lambda given: here.barrier(given, 1)),
        ("barrier.parties", COUNT, lambda given: here.barrier("x", given)),
        ("barrier.ttl", TTL, lambda given: here.barrier("x", 1, ttl=given)),
        ("barrier.wait", LIMIT, lambda given: here.barrier("x", 1).wait(given)),
        ("multi_lock", ([b"x"], [None, 5, "x", [], object()]), here.multi_lock),
        ("multi_lock.name", NAME, lambda given: here.multi_lock(["x", given])),
        ("multi_lock.acquire_guard", LIMIT, lambda given: here.multi_lock(["x"]).acquire_guard(given)),
        ("striped", NAME, lambda given: here.striped(given, 2)),
        ("segments", (COUNT[0], [257, *COUNT[1]]), lambda given: here.striped("x", given)),
        ("striped.index_for", TEXT, lambda given: here.striped("x", 2).index_for(given)),
        ("striped.for_key", TEXT, lambda given: here.striped("x", 2).for_key(given)),
        ("striped.across", (NO_TEXT, []), lambda given: here.striped("x", 2).across(given)),
        ("striped.any", LIMIT, lambda given: here.striped("x", 2).any(given)),
        ("once", NAME, lambda given: here.once(given, print, print)),
        ("once.look", FUNCTION, lambda given: here.once("x", given, print)),
        ("once.make", FUNCTION, lambda given: here.once("x", print, given)),
        ("once.waits", FLAG, lambda given: here.once("x", print, print, waits=given)),
        ("election", NAME, here.election),
        ("campaign", (NO_TEXT, ["x" * 129, "\ud800"]), lambda given: here.election("x").campaign(given)),
        ("campaign.timeout", LIMIT, lambda given: here.election("x").campaign("me", given)),
        ("changed.known", (["x", 1.5, [], object()], []), lambda given: here.election("x").changed(given)),
        ("changed.every", ([None, "1s", [], object()], [0, -1, NAN, INFINITY, 10**400]), lambda given: here.election("x").changed(1, given)),
        ("guarded.key", NAME, lambda given: here.guarded(given)),
        ("guarded.function", FUNCTION, lambda given: here.guarded("x")(given)),
        ("lock.guarded", FUNCTION, lambda given: here.lock("x").guarded(given)),
        ("resume", NAME, here.resume),
        ("lock.resume", NAME, lambda given: here.lock("x").resume(given)),
        ("inspect", NAME, here.inspect),
        ("break_lock", NAME, lambda given: here.break_lock(given, 1)),
        ("break_lock.token", TOKEN, lambda given: here.break_lock("x", given)),
        ("lock.break_lock", TOKEN, lambda given: here.lock("x").break_lock(given)),
        ("request_release", TOKEN, lambda given: here.lock("x").request_release(given)),
        ("drain", SPAN, here.drain),
        ("require", ([5], []), lambda given: here.require(nonsense=given)),
        ("lock.acquire", LIMIT, lambda given: here.lock("x").acquire(timeout=given)),
        ("lock.blocking", ([None, 5, 0.5, "true", [], object()], []), lambda given: here.lock("x").acquire(given)),
        ("lock.acquire_guard", LIMIT, lambda given: here.lock("x").acquire_guard(given)),
        *[(f"lock({name}=)", wrong, lambda given, name=name: here.lock("x", **{name: given})) for name, wrong in OF_LOCKS.items()],
        *[(f"election({name}=)", wrong, lambda given, name=name: here.election("x", **{name: given})) for name, wrong in OF_ELECTIONS.items()],
    ]


def rows_of_guard(guard: Any) -> List[Row]:
    return [
        ("extend", TTL, guard.extend),
        ("export", TTL, guard.export),
        ("hold_at_least_for", (NO_SPAN, [86_401, *SPAN[1]]), guard.hold_at_least_for),
        ("on_lost", FUNCTION, guard.on_lost),
        ("on_release_requested", FUNCTION, guard.on_release_requested),
    ]


ALONE: List[Row] = [
    ("sql_condition", NAME, kit.sql_condition),
    ("placeholder", (NO_TEXT, NAME[1]), lambda given: kit.sql_condition("x", given)),
    ("key_range", NAME, kit.key_range),
    ("advisory_key", NAME, kit.advisory_key),
    ("read_header", TEXT, kit.read_header),
    ("header_value", TOKEN, kit.header_value),
    ("header_value.epoch", TOKEN, lambda given: kit.header_value(1, given)),
    ("Fence.token", TOKEN, lambda given: kit.Fence((0, given))),
    ("Fence.epoch", TOKEN, lambda given: kit.Fence((given, 0))),
    ("Fence.admit", TOKEN, lambda given: kit.Fence().admit(given)),
    ("Fence.admit.epoch", TOKEN, lambda given: kit.Fence().admit(1, given)),
    ("credentials", FUNCTION, lambda given: lockwright.connect("memory://", credentials=given)),
    ("aio.credentials", FUNCTION, lambda given: lockwright.aio.connect("memory://", credentials=given)),
    ("url", (NO_TEXT, ["", "x", "nonsense://x", "\ud800"]), lockwright.connect),
    ("aio.url", (NO_TEXT, ["", "x", "nonsense://x", "\ud800"]), lockwright.aio.connect),
]


Case = Tuple[str, Callable[[], Any], Type[BaseException]]


def cases(all_rows: List[Row]) -> Iterator[Case]:
    for asked, (types, values), ask in all_rows:
        for wrong, expected in ((types, TypeError), (values, lockwright.InvalidConfig)):
            for given in wrong:
                yield f"{asked} of {given!r:.40}", functools.partial(ask, given), expected


@contextlib.contextmanager
def refused(what: str, expected: Type[BaseException]) -> Iterator[None]:
    try:
        yield
    except expected:
        return
    except BaseException as error:
        raise AssertionError(what) from error
    raise AssertionError(f"{what} is taken")


def all_refused(all_rows: List[Row]) -> None:
    for what, ask, expected in cases(all_rows):
        with refused(what, expected):
            ask()


async def all_refused_in_a_task(all_rows: List[Row]) -> None:
    for what, ask, expected in cases(all_rows):
        with refused(what, expected):
            answer = ask()
            if inspect.isawaitable(answer):
                await answer


def test_of_connect_and_of_the_kit() -> None:
    all_refused(ALONE)


def test_of_clients(client: lockwright.Client) -> None:
    all_refused(rows(client))
    with client.lock("held") as guard, client.multi_lock(["both"]) as both:
        all_refused([*rows_of_guard(guard), ("multi.on_lost", FUNCTION, both.on_lost), ("multi.extend", TTL, both.extend)])
        assert guard.is_held and both.is_held
    assert all(client.inspect(name).holder is None for name in client.list())


def test_of_tasks(store_uri: str, run: Run) -> None:
    async def main() -> None:
        async with lockwright.aio.connect(store_uri) as client:
            await all_refused_in_a_task(rows(client))
            async with client.lock("held") as guard, client.multi_lock(["both"]) as both:
                of_both: List[Row] = [("multi.on_lost", FUNCTION, both.on_lost), ("multi.extend", TTL, both.extend)]
                await all_refused_in_a_task([*rows_of_guard(guard), *of_both])
                assert guard.is_held and both.is_held
            assert all([(await client.inspect(name)).holder is None for name in await client.list()])

    run(main())
