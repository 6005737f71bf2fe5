"""The same locks for asyncio.

    import lockwright.aio

    async with lockwright.aio.connect("redis://localhost") as client:
        async with client.lock("orders:42", ttl=10) as guard:
            await charge(fence=guard.token)

A `Lock` behaves as `asyncio.Lock`, but that its release is awaited. Nothing here blocks the event loop, and whatever is
awaited may be cancelled: a place in the queue is left, and a lock that was granted meanwhile is given back, in the
background. A client and its locks may be used from every event loop of the process; a guard too.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import itertools
import sys
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Coroutine, Dict, Generic, Iterable, List, Optional, Tuple, TypeVar

from lockwright import _lockwright as _native
from lockwright._beside import Beside
from lockwright._errors import Forked, InvalidConfig, LockError, LockLost, LockTimeout, NotOwned, Unavailable
from lockwright._guarded import LockOf, by_key
from lockwright._election import EVERY, Candidacy, Leader, check_observer, is_news, leader_of
from lockwright._once import OneAtATime
from lockwright._reactors import here
from lockwright._records import Arrival, ConnectOptions, Guarantees, Health, Inspection, LockOptions, Metrics, Requirements, Span
from lockwright._several import BothParts, HeldTogether, Segmented, SeveralLocks, Striping, _Exc, _Traceback, _Type, given_back

__all__ = [
    "Barrier",
    "Client",
    "Election",
    "Guard",
    "Latch",
    "Lock",
    "Lost",
    "MultiGuard",
    "MultiLock",
    "Once",
    "RLock",
    "RwLock",
    "Segment",
    "Semaphore",
    "Striped",
    "connect",
]

_F = TypeVar("_F", bound=Callable[..., Awaitable[Any]])
_T = TypeVar("_T")
_C = TypeVar("_C")
_N = TypeVar("_N", _native.Lock, _native.Latch, _native.Barrier)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from lockwright._lockwright import _Outcome


def connect(
    url: Optional[str] = None,
    *,
    credentials: Optional[Callable[[], "tuple[str, str]"]] = None,
    **options: Unpack[ConnectOptions],
) -> Client:
    """Connects to the place that `url` names, else `LOCKWRIGHT_URL`, else a file of this user's.

    As `lockwright.connect`: nothing is sent before the first use, and nothing is awaited here. `credentials` is a plain
    function, called on a thread of the library's, so it may block. When it raises, what needed the connection raises
    `AuthFailed`, which names the cause.
    """
    if inspect.iscoroutinefunction(credentials):
        raise InvalidConfig(
            "credentials must be a plain function, which may block: it is called on a thread of the library's",
            operation="connect",
        )
    return Client(_native.connect(url, credentials=credentials, **options))


def _asking() -> Tuple[asyncio.AbstractEventLoop, _native.Reactor, "asyncio.Future[None]"]:
    """The running loop, its reactor, and a future for what that is asked: to find the loop asks the operating system."""
    loop, reactor = here()
    return loop, reactor, loop.create_future()


async def _answer(reactor: _native.Reactor, future: "asyncio.Future[None]", number: _native._Job[_T]) -> _T:
    """What the job of that number is answered; to be awaited at once."""
    try:
        await future
    except BaseException:
        # Cancelled, maybe when the answer was there already.
        reactor.forget(number)
        raise
    return reactor.take(number)


def _ask(question: Callable[..., _native._Job[_T]], *arguments: Any) -> Coroutine[Any, Any, _T]:
    """What `question`, a method of a reactor, is answered; to be awaited at once."""
    _, reactor, future = _asking()
    return _answer(reactor, future, question(reactor, future, *arguments))


async def _of(method: Callable[..., _T], core: object, *arguments: Any) -> _T:
    """What comes of the operation that `method` waits for in a thread."""
    # A store may answer at once: whoever asks again and again shall not keep the other tasks of the loop from running. Asked first, so
    # that nothing is lost where this is cancelled.
    await asyncio.sleep(0)
    told: _T = await _ask(_native.Reactor.begin, core, None, method.__name__, *arguments)
    return told


class _Around(Generic[_C]):
    """What the classes here have that stand around one of the native module's."""

    __slots__ = ("_core", "__weakref__")

    def __init__(self, core: _C) -> None:
        self._core = core

    def __repr__(self) -> str:
        return repr(self._core).replace("<lockwright.", "<lockwright.aio.", 1)


class _Named(_Around[_N]):
    """What those of them have in common that are locks, or the like."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Its name, without the prefix of the address."""
        return self._core.name


class Client(_Around[_native.Client]):
    """One place where locks are kept. Made by `connect`.

    After a fork the child's copy connects by itself at its next use, in an event loop of the child's own.
    """

    __slots__ = ()

    @property
    def address(self) -> str:
        """The address without credentials."""
        return self._core.address

    def lock(self, name: str, *, cancel_on_loss: bool = False, **options: Unpack[LockOptions]) -> Lock:
        """The lock called `name`. What is not given is as the address says, else as it says here.

        Times are numbers of seconds, texts such as `10s`, `500ms` and `2m`, or timedeltas. `ttl`: how long it stays ours without a
        renewal, 20 ms to 24 hours (30). `timeout`: how long to wait for others (-1, for ever).
        `renew`: whether it is renewed while it is held (True). `max_hold`: how long after the grant renewal ends
        (never). `at_least_for`: how long after the grant it stays taken however early it is released, as
        `Guard.hold_at_least_for` has it (0). `fair`: first come, first served over all processes (False). `rank`: with `fair`,
        how urgent it is, 0 to 9 (0): higher ranks go first, and every 10 s of waiting count as one rank. `revocable`: whether its
        holder listens for others who ask for it back (False), of which `Guard.on_release_requested` tells; only the layout
        `curator` has such a message. `layout`: how it lies in the store, such as `string`, and `format`: whose locks of that layout it joins, such as `redis-py`. `retry`:
        the first and the longest pause between two tries of a waiter that nobody tells of its turn (0.002, 0.064). `label`:
        a text that `inspect` shows.

        Who comes from redis-py: its `timeout` is `ttl` here, and its `blocking_timeout` is `timeout`.

        Raises `InvalidConfig` for what cannot be, and `Unsupported` for what this store or layout cannot do.
        `cancel_on_loss`: whether the task in an `async with` block of the lock is cancelled when the lock is lost, so that
        the block raises `LockLost` at once (False: when it ends).
        """
        return Lock(self._core.lock(name, **options), cancel_on_loss)

    def rlock(self, name: str, *, cancel_on_loss: bool = False, **options: Unpack[LockOptions]) -> RLock:
        """As `lock`, but its task may acquire it again, through any RLock of that name of this client.

        A task that this one starts is another: it waits, although it begins with a copy of this one's context.
        """
        return RLock(self._core.rlock(name, **options), cancel_on_loss)

    def multi_lock(self, names: Iterable[str], **options: Any) -> MultiLock:
        """The locks called `names`, to be held all at once. Options are those of `lock`; the timeout is for all of them."""
        return MultiLock(self._core.multi_lock(names, **options)._core)

    def striped(self, name: str, segments: int, **options: Any) -> Striped:
        """The lock `name` cut into 1 to 256 `segments`. Options are those of `lock`."""
        return Striped(self._core.striped(name, segments, **options)._core)

    def once(
        self,
        name: str,
        look: Callable[[], Awaitable[Optional["tuple[_T, bool]"]]],
        make: Callable[[int], Awaitable[_T]],
        *,
        waits: bool = False,
        **options: Any,
    ) -> Once[_T]:
        """A job that one caller at a time does, such as to rebuild a cache entry: see `Once`. Options are those of `lock`.

        `waits`: callers wait for a fresh value though there is a stale one (False).
        """
        return Once(self.lock(name, **options), look, make, waits)

    def election(self, name: str, **options: Any) -> Election:
        """One of many leads: see `Election`. Options are those of `lock`, but for `fair`, `rank` and `label`."""
        return Election(self, name, **options)

    def guarded(self, key: str, **options: Any) -> Callable[[_F], _F]:
        """Decorates a coroutine function, so that every call of it holds the lock that `key` names:
        `@client.guarded("customer:{cid}")`.

        The names in braces are parameters of the function, filled in as `str.format` does from what each call was given or the
        parameters' defaults. Options are those of `lock`. Raises `InvalidConfig` where a name is no parameter, and `TypeError`
        for what is no coroutine function.
        """
        return by_key(self, key, options, _holding)

    async def resume(self, secret: str, **options: Any) -> Guard:
        """Takes over a lock that somebody exported; its token is higher than the exporter's.

        It is held with this client's options and those given here: `ttl`, `renew`, `max_hold`, `at_least_for`, `layout`,
        `format` and `label`, as `lock` has them. Nothing is waited for. Raises `NotOwned` when somebody resumed it before, or
        its time ran out and somebody else has the lock; `InvalidConfig` for what is no secret.
        """
        return await Lock(self._core._exported(secret, **options), False).resume(secret)

    async def ping(self) -> Health:
        """Whether locks can be had here, now: acquires a lock of its own and gives it back, which needs all the rights that locking needs.

        For readiness probes: about three requests. Raises `Unavailable` when nobody answers (at once where nobody listens, else
        after `store_timeout`), `AuthFailed` when a right is missing, `ForeignLayout`, `ProtocolError`, and `Closed`.
        """
        return await _of(_native.Client.ping, self._core)

    async def drain(self, limit: Span) -> "List[str]":
        """Begins nothing any more and waits until everything that this client holds was released, for at most `limit` seconds.

        For a program that is told to end. From the call on, acquisitions fail with `Closed`, also those that wait. Returns the names
        of the locks that are still held, none when all were released; `close` gives them back. Raises `Closed`.
        """
        return await _of(_native.Client.drain, self._core, limit)

    def rwlock(self, name: str, *, cancel_on_loss: bool = False, **options: Unpack[LockOptions]) -> RwLock:
        """The read/write lock called `name`: many readers at once, or one writer. The options are those of `lock`, for both.

        First come, first served: a reader waits for a writer that came before it, and the other way round. A lock of the
        same name is something else: whoever comes second gets `ForeignLayout`.
        """
        parts = self._core.rwlock(name, **options)
        return RwLock(Lock(parts.read(), cancel_on_loss), Lock(parts.write(), cancel_on_loss))

    def semaphore(
        self,
        name: str,
        permits: int = 1,
        *,
        take: int = 1,
        cancel_on_loss: bool = False,
        **options: Unpack[LockOptions],
    ) -> Semaphore:
        """The semaphore called `name`, with `permits` permits, of which each acquisition takes `take`, all or none.

        Whoever first uses an idle one says how many permits it has, until it is resized. With `fair`, an acquisition that
        wants more than is free is not passed over by those that want less. The other options are those of `lock`.
        """
        return Semaphore(self._core.semaphore(name, permits, take=take, **options), cancel_on_loss)

    def latch(self, name: str, count: int, *, idle: Optional[Span] = None) -> Latch:
        """The latch called `name`, which is open once it was counted down `count` times, by whomever.

        Whoever first uses it says how many. It is forgotten `idle` seconds (60 to 2,592,000, which is 30 days and the default) after
        anybody last used it, and open until then. A lock of the same name is something else: whoever comes second gets
        `ForeignLayout`.
        """
        return Latch(self._core.latch(name, count, idle=idle))

    def barrier(self, name: str, parties: int, *, ttl: Optional[Span] = None) -> Barrier:
        """The barrier called `name`, which opens whenever `parties` (1 to 10,000) wait for it at the same time.

        The place of a party that died stands for at most `ttl` seconds more (0.02 to 86,400; 30), and is another's then. Those who
        wait must name the same number of parties. A lock of the same name is something else: whoever comes second gets
        `ForeignLayout`.
        """
        return Barrier(self._core.barrier(name, parties, ttl=ttl))

    def guarantees(self) -> Guarantees:
        """What locks of this client promise."""
        return self._core.guarantees()

    def require(self, **wanted: Unpack[Requirements]) -> None:
        """Raises `Unsupported` unless all of it is promised: of locks, or where `rwlock`, `semaphore`, `latch` or `barrier` are named, of each of them.

        Nobody holds a latch or a barrier, so `fenced`, `fair` and `reentrant` say nothing of them. Nothing is sent.
        """
        self._core.require(**wanted)

    async def inspect(self, name: str) -> Inspection:
        """What lies under `name`: who holds it, and how many wait; of a latch, how many are still to come."""
        return await _of(_native.Client.inspect, self._core, name)

    async def list(self) -> List[str]:
        """The names of the locks there are."""
        return await _of(_native.Client.list, self._core)

    async def break_lock(self, name: str, expected_token: int) -> bool:
        """Takes the lock from whoever holds it under that token, which `inspect` shows. Whether somebody did."""
        return await _of(_native.Client.break_lock, self._core, name, expected_token)

    def metrics(self) -> Metrics:
        """What this client did in this process so far."""
        return self._core.metrics()

    async def close(self) -> None:
        """Gives back what is held and ends every wait with `Closed`. Cancelling it does not open the client again."""
        # Without the pause before other questions, in which it might be cancelled.
        await _ask(_native.Reactor.begin, self._core, None, "close")
        self._core._forget_orphans()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, exc_type: _Type = None, exc: _Exc = None, traceback: _Traceback = None, /) -> None:
        await self.close()


def _task(loop: Optional[asyncio.AbstractEventLoop] = None) -> "asyncio.Task[Any]":
    task = asyncio.current_task(loop)
    if task is None:
        raise RuntimeError("a lock belongs to a task, and none is running here")
    return task


# Not in a context variable: tasks can share a context, and those that are started inherit it.
_owners: Beside[int] = Beside()
_numbers = itertools.count(1)


def _owner(loop: Optional[asyncio.AbstractEventLoop] = None) -> int:
    """The running task's own number."""
    task = _task(loop)
    number = _owners.get(task)
    if number is None:
        number = next(_numbers)
        _owners.put(task, number)
    return number


class Lock(_Named[_native.Lock]):
    """A named lock that behaves as `asyncio.Lock`. What `acquire` took outlives this object."""

    __slots__ = ("_cancel_on_loss", "_interruptions")

    def __init__(self, core: _native.Lock, cancel_on_loss: bool) -> None:
        super().__init__(core)
        self._cancel_on_loss = cancel_on_loss
        self._interruptions: Dict[_native.Guard, _Interruption] = {}

    def _for_election(self) -> Lock:
        return Lock(self._core._for_election(), self._cancel_on_loss)

    async def _acquire(self, timeout: Optional[Span]) -> _native.Guard:
        loop, reactor, future = _asking()
        return await _answer(reactor, future, reactor.acquire(future, self._core, timeout, _owner(loop), False))

    async def acquire(self, blocking: bool = True, timeout: Span = -1) -> bool:
        """Whether the lock was acquired in time. A `timeout` of -1 is the lock's own."""
        if not _native._is_blocking(blocking):
            if timeout != -1:
                raise InvalidConfig(
                    "a timeout was given for a call that shall not block; give one of the two",
                    operation="acquire",
                    lock=self.name,
                )
            timeout = 0
        loop, reactor, future = _asking()
        me = _owner(loop)
        try:
            guard = await _answer(reactor, future, reactor.acquire(future, self._core, timeout, me, True))
        except LockTimeout:
            return False
        self._core._pin(guard, False, me)
        return True

    async def release(self) -> None:
        """Gives back what this task acquired, else what another task did.

        Raises `NotOwned` when nothing is held through this lock, `LockLost` when it was lost before. Cancelling it does
        not take the release back.
        """
        loop, reactor, future = _asking()
        await _answer(reactor, future, reactor.release(future, self._core._unpin(_owner(loop)), True))

    async def locked(self) -> bool:
        """Whether anybody holds the lock at this moment, in any process."""
        return self._core._is_held_here() or (await self.inspect()).holder is not None

    async def inspect(self) -> Inspection:
        """Who holds it, and how many wait for it."""
        return await _of(_native.Lock.inspect, self._core)

    async def break_lock(self, expected_token: int) -> bool:
        """Takes it from whoever holds it under that token, which `inspect` shows. Whether somebody did."""
        return await _of(_native.Lock.break_lock, self._core, expected_token)

    async def request_release(self, expected_token: int) -> bool:
        """Asks whoever holds it under that token, which `inspect` shows, to give it back. Whether somebody does.

        Whose lock is `revocable` is told, here or with Curator, and goes on as it likes: `break_lock` takes it. Raises
        `Unsupported` where the layout has no such message.
        """
        return await _of(_native.Lock.request_release, self._core, expected_token)

    def guarantees(self) -> Guarantees:
        """What it promises in its layout."""
        return self._core.guarantees()

    async def acquire_guard(self, timeout: Optional[Span] = None) -> Guard:
        """Waits for the lock. Raises `LockTimeout` when others held it all the time."""
        return Guard(await self._acquire(timeout))

    async def try_acquire(self) -> Optional[Guard]:
        """The lock, if it is free."""
        try:
            return Guard(await self._acquire(0))
        except LockTimeout:
            return None

    async def resume(self, secret: str) -> Guard:
        """Takes the lock over from `secret`, as `Client.resume` does, with this lock's options."""
        return Guard(await _ask(_native.Reactor.begin, self._core, _owner(), "resume", secret))

    def guarded(self, function: _F) -> _F:
        """Decorates a coroutine function, so that every call of it holds the lock."""
        return _holding(function, lambda args, kwargs: self)

    async def __aenter__(self) -> Guard:
        guard = await self._acquire(None)
        self._core._pin(guard, True, _owner())
        if self._cancel_on_loss:
            self._interruptions[guard] = _Interruption(guard)
        return Guard(guard)

    async def __aexit__(self, exc_type: _Type = None, exc: _Exc = None, traceback: _Traceback = None, /) -> None:
        guard = self._core._unpin_block(_owner())
        # None: the block gave it back itself.
        if guard is None:
            return
        interruption = self._interruptions.pop(guard, None) if self._cancel_on_loss else None
        if interruption is not None and interruption.end(guard, exc):
            return
        await _end(guard, exc)


def _holding(function: _F, lock_of: LockOf) -> _F:
    if not inspect.iscoroutinefunction(function):
        kind = "an async generator" if inspect.isasyncgenfunction(function) else "no coroutine function"
        generates = inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)
        instead = "hold it inside, with `async with`" if generates else "take a lock of lockwright.connect"
        raise TypeError(f"{function!r} is {kind}, so this lock cannot guard it: {instead}")

    @functools.wraps(function)
    async def holding(*args: Any, **kwargs: Any) -> Any:
        async with lock_of(args, kwargs):
            return await function(*args, **kwargs)

    return holding  # type: ignore[return-value]


class MultiGuard(HeldTogether):
    """Several locks that are held together: the loss of one is the loss of all."""

    __slots__ = ()

    @property
    def guards(self) -> List[Guard]:
        """The guard of each lock, to be released each at its own time."""
        return [Guard(guard) for guard in self._guards]

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Has `callback(why)` called once in this event loop, when the first of them is lost."""
        _native._check_callable("callback", callback)
        ends: List[Callable[[], None]] = []

        def once(why: str) -> None:
            for end in ends:
                end()
            callback(why)

        ends.extend(_watch(guard, once) for guard in self._guards)

    async def extend(self, ttl: Span) -> None:
        """Makes every lease last `ttl` seconds from now, and at every renewal."""
        for guard in self._guards:
            await _ask(_native.Reactor.extend, guard, ttl)

    async def release(self) -> str:
        """Gives all back, in one write. What the store found: of the first that was not simply `released`, if any.

        One that cannot be given back keeps no other from it: the first error is raised then, with a note (`__notes__`) on each
        of the others. Raises `NotOwned` for one that was released before. Cancelling it does not take the release back.
        """
        return given_back(await _ask(_native.Reactor.release_all, self._guards, False))

    async def __aenter__(self) -> MultiGuard:
        return self

    async def __aexit__(self, exc_type: _Type = None, exc: _Exc = None, traceback: _Traceback = None, /) -> None:
        ends = await _ask(_native.Reactor.release_all, self._guards, True)
        # A loss is an error of the block, unless it has one already.
        if exc is None:
            given_back(ends)


class MultiLock(SeveralLocks[MultiGuard]):
    """Several named locks that are acquired together: all or none, in an order in which nobody deadlocks."""

    __slots__ = ()

    async def acquire_guard(self, timeout: Optional[Span] = None) -> MultiGuard:
        """Waits until all are held. Raises `LockTimeout` when others held one of them all the time: then none is."""
        return MultiGuard(await _of(_native.Bundle.acquire, self._core, timeout))

    async def try_acquire(self) -> Optional[MultiGuard]:
        """All of them, if all are free."""
        try:
            return await self.acquire_guard(0)
        except LockTimeout:
            return None

    async def __aenter__(self) -> MultiGuard:
        return self._began(_owner(), await self.acquire_guard())

    async def __aexit__(self, exc_type: _Type = None, exc: _Exc = None, traceback: _Traceback = None, /) -> None:
        await self._ended(_owner()).__aexit__(exc_type, exc, traceback)


class Segment(Segmented["Guard"]):
    """A segment that is held. Its `guard` is like any other; leaving the `async with` block releases it."""

    __slots__ = ()

    async def sold_out(self) -> str:
        """Nothing is left in it: it is given back, and not offered again."""
        self.mark_sold_out()
        return await self.guard.release()

    async def release(self) -> str:
        """Gives it back, as `Guard.release` does."""
        return await self.guard.release()

    async def __aenter__(self) -> Segment:
        await self.guard.__aenter__()
        return self

    async def __aexit__(self, exc_type: _Type = None, exc: _Exc = None, traceback: _Traceback = None, /) -> None:
        await self.guard.__aexit__(exc_type, exc, traceback)


class Striped(Striping):
    """A hot lock cut into segments. What is sold out is known to this object, and to no other process."""

    __slots__ = ()

    def across(self, *others: Client) -> Striped:
        """The same segments at more stores, so that none has all the load: those of this one and of `others`, in turn.

        Every process must name the same stores in the same order. One that cannot be reached is left out for ten seconds,
        while others answer. Raises `InvalidConfig` for more stores than segments, and `Unsupported` where another store
        cannot do what the options ask for.
        """
        for other in others:
            if not isinstance(other, Client):
                raise TypeError(f"argument 'others': {type(other).__name__} is no Client of lockwright.aio")
        return Striped(self._core.across([other._core for other in others]))

    async def any(self, timeout: Optional[Span] = None) -> Optional[Segment]:
        """A free segment, or the first to be had where none is free; None once all are sold out.

        Raises `LockTimeout` when others held them all the time.
        """
        found = await _of(_native.Segments.any, self._core, timeout)
        return None if found is None else Segment(self._core, found[0], Guard(found[1]))

    def for_key(self, key: str) -> Lock:
        """The lock of the segment that `key` belongs to."""
        return Lock(self._core.lock(self.index_for(key)), False)


class Once(OneAtATime[Lock, Callable[[], Awaitable[Optional[Tuple[_T, bool]]]], Callable[[int], Awaitable[_T]]], Generic[_T]):
    """A job that one caller at a time does: `lockwright.Once`, with coroutine functions to `look` and to `make`."""

    __slots__ = ()

    async def get(self) -> _T:
        """The value, fresh or as `make` made it; where somebody else makes it, the stale one, or what comes of waiting."""
        found = await self._look()
        if found is not None and found[1]:
            return found[0]
        if found is not None and not self._waits:
            guard = await self._lock.try_acquire()
            if guard is None:
                return found[0]
        else:
            guard = await self._lock.acquire_guard()
        async with guard:
            found = await self._look()
            if found is not None and found[1]:
                return found[0]
            return await self._make(guard.token)


class Election(Candidacy[Client]):
    """The leader is whoever holds the lock of that name; candidates wait for it in order, where the store promises `fair` and the server allows it."""

    __slots__ = ()

    async def campaign(self, proclaims: str, timeout: Optional[Span] = None) -> Guard:
        """Waits to lead, and proclaims a text of at most 128 bytes from then on. Releasing the guard resigns."""
        lock = self._client.lock(self.name, fair=False, rank=0, label=proclaims, **self._options)
        return await lock._for_election().acquire_guard(timeout)

    async def run(self, proclaims: str, work: Callable[[Guard], Awaitable[_T]]) -> _T:
        """Campaigns, awaits `work(guard)` while this one leads, and returns what the work returns; then it resigns.

        The work is a task of its own. When leadership is lost it is cancelled, and once it has ended this campaigns again. A store
        that does not answer is asked again every 0.5 s. Raises what the work raises, having resigned, and else what `campaign`
        raises, but neither `Unavailable` nor `LockLost`. Cancelling it cancels the work, and resigns when that has ended.
        """
        while True:
            try:
                guard = await self.campaign(proclaims)
            except (Unavailable, LockLost):
                await asyncio.sleep(EVERY)
                continue
            try:
                async with guard:
                    return await _while_held(guard, work(guard))
            except LockLost:
                if guard.why_lost is None:
                    raise

    async def leader(self) -> Optional[Leader]:
        """Who leads now."""
        return leader_of(await self._client.lock(self.name, **self._options)._for_election().inspect())

    async def changed(self, known: Optional[int] = None, every: float = 0.5) -> Optional[Leader]:
        """Waits until somebody else leads than the one with the token `known`, looking each `every` seconds, 0.001 to 86,400;
        None when nobody leads any more. Raises InvalidConfig for another `every`."""
        check_observer(known, every)
        while True:
            leader = await self.leader()
            if is_news(leader, known):
                return leader
            await asyncio.sleep(every)


async def _while_held(guard: Guard, work: Awaitable[_T]) -> _T:
    """What the work ends with. It is cancelled when the guard is lost, which is raised then."""
    told: List[str] = []
    working = asyncio.ensure_future(work)

    def lose(why: str) -> None:
        told.append(why)
        working.cancel()

    end = _watch(guard._core, lose)
    try:
        await asyncio.wait([working])
    except asyncio.CancelledError:
        await _cancelled(working)
        if not working.cancelled() and working.exception() is not None:
            # As if it had been awaited itself: why it could not end well goes before its cancellation.
            return working.result()
        raise
    finally:
        end()
    loss = guard._core._loss()
    if told and loss is not None:
        if not working.cancelled():
            # What the work made of its cancellation is nobody's any more, and asyncio wants to have been asked for it.
            working.exception()
        raise loss
    return working.result()


async def _cancelled(task: "asyncio.Future[Any]") -> None:
    """Cancels a task and waits for its end, however often that is cancelled: what it holds is given back only then."""
    while not task.done():
        task.cancel()
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            pass


class RLock(Lock):
    """A lock that the task which holds it may acquire again, and no other task release."""

    __slots__ = ()


class RwLock(BothParts[Lock]):
    """A named read/write lock, of which `read()` and `write()` are locks like any other."""

    __slots__ = ()


class Semaphore(Lock):
    """A named semaphore that behaves as `asyncio.BoundedSemaphore`, and whose permits end with their holder."""

    __slots__ = ()
    _core: _native.Semaphore

    @property
    def take(self) -> int:
        """How many permits each acquisition takes."""
        return self._core.take

    async def release(self, n: int = 1) -> None:
        """Gives back what `n` acquisitions took: this task's, else those of other tasks.

        Raises `OverReleased`, which is a `ValueError`, and gives back nothing, when fewer are held through this object;
        `LockLost` when one was lost before. Cancelling it does not take the release back.
        """
        loop, _ = here()
        guards = self._core._unpin_several(n, _owner(loop))
        # One that was lost does not keep the others from being given back.
        given_back(await _ask(_native.Reactor.release_all, guards, True))

    async def locked(self) -> bool:
        """Whether an acquisition would have to wait at this moment."""
        seen = await self.inspect()
        if seen.shared is None or seen.shared.permits is None:
            return False
        held = sum(int(part.holds) for part in seen.shared.holders)
        return seen.waiters > 0 or held + self.take > seen.shared.permits

    async def resize(self, permits: int) -> None:
        """Gives it so many permits, for everybody and for good. Nobody loses what it holds."""
        await _of(_native.Semaphore.resize, self._core, permits)


class Latch(_Named[_native.Latch]):
    """Whoever waits goes on once so many have counted it down. Made by `Client.latch`; nothing is held, nothing to release."""

    __slots__ = ()

    async def wait(self, timeout: Optional[Span] = None) -> bool:
        """Waits until it is open. Whether it is; without a `timeout`, it is. May be cancelled at any time."""
        return await _of(_native.Latch.wait, self._core, timeout)

    async def count_down(self) -> int:
        """Counts it down by one; how many are still to come. An open one stays open.

        When it raises `Unavailable`, or is cancelled, it is not known whether it was counted down. Two callers may be told the same
        number, where an answer was lost and asked for again: 0 does not mean that you were the last.
        """
        return await _of(_native.Latch.count_down, self._core)

    async def count(self) -> int:
        """How many are still to come; of a latch that nobody used yet, its count."""
        return await _of(_native.Latch.count, self._core)

    async def try_set_count(self, count: int) -> bool:
        """Has it count from `count`, if it is open or nobody used it yet. Whether it does."""
        return await _of(_native.Latch.try_set_count, self._core, count)


class Barrier(_Named[_native.Barrier]):
    """Whoever waits goes on once as many wait as there are parties; then it starts over. Made by `Client.barrier`.

    Unlike `threading.Barrier` it does not break: a party that dies, times out or is cancelled gives its place up, and the others go
    on waiting for whoever replaces it.
    """

    __slots__ = ()

    @property
    def parties(self) -> int:
        """How many have to wait for it to open."""
        return self._core.parties

    async def wait(self, timeout: Optional[Span] = None) -> Optional[Arrival]:
        """Waits until as many wait as there are parties, for at most `timeout` seconds: 0 goes on if this is the last one.

        `None` when it did not open in time. Raises `InvalidConfig` when those who wait name another number of parties, `LockLost`
        when this process was stopped for so long that it is not known whether it passed, and `Unavailable` when the store does not
        say so. May be cancelled at any time; when it opened just then, the others went on with this party.
        """
        return await _of(_native.Barrier.wait, self._core, timeout)

    async def waiting(self) -> int:
        """How many wait now; those whose process died count until their place's ttl is over."""
        return await _of(_native.Barrier.waiting, self._core)


async def _end(guard: _native.Guard, exc: Optional[BaseException]) -> None:
    """Ends what was held for a block: a loss is an error of the block, unless it has one already."""
    try:
        await _ask(_native.Reactor.release, guard, True)
    except (NotOwned, Forked):
        # The block gave it back itself, or left it to the parent process.
        pass
    except LockError:
        if exc is None:
            raise


class _Interruption:
    """Cancels the task of a block when the lock is lost."""

    __slots__ = ("_task", "_before", "_watch", "_asked")

    def __init__(self, guard: _native.Guard) -> None:
        self._task = _task()
        self._before = self._task.cancelling() if sys.version_info >= (3, 11) else 0
        self._asked = False
        self._watch = _watch(guard, self._cancel)

    def _cancel(self, why: str) -> None:
        self._asked = True
        self._task.cancel(self)

    def end(self, guard: _native.Guard, exc: Optional[BaseException]) -> bool:
        """Ends the watch. Whether the loss was dealt with, else the block ends as any other does."""
        self._watch()
        if not self._asked:
            return False
        loss = guard._loss()
        here()[1].give_back(guard)
        if sys.version_info >= (3, 11):
            self._task.uncancel()
        # The task did not run between its cancellation and being told, so the block knows of it.
        is_ours = isinstance(exc, asyncio.CancelledError) and not self._is_of_somebody_else(exc)
        if loss is not None and (exc is None or is_ours):
            raise loss from exc
        return True

    def _is_of_somebody_else(self, cancelled: asyncio.CancelledError) -> bool:
        if sys.version_info >= (3, 11):
            return self._task.cancelling() > self._before
        return cancelled.args != (self,)

    def __repr__(self) -> str:
        return "the lock was lost"


def _watch(guard: _native.Guard, tell: Callable[[str], object]) -> Callable[[], None]:
    """Has `tell(why)` called in this loop when the guard is lost. Returns what ends that."""
    _, reactor, future = _asking()
    number = reactor.lost(future, guard)

    is_over = False

    def told(_: "asyncio.Future[None]") -> None:
        nonlocal is_over
        # It may have been called already, to run soon, when the watch was ended.
        if not is_over:
            is_over = True
            why = reactor.take(number)
            if why is not None:
                tell(why)

    future.add_done_callback(told)

    def end() -> None:
        nonlocal is_over
        if not is_over:
            is_over = True
            future.remove_done_callback(told)
            reactor.forget(number)

    return end


class Guard(_Around[_native.Guard]):
    """A lock that is held.

    One that is collected unreleased gives a `ResourceWarning` and is not renewed any more, but not released: the
    collector may come in the middle of what the lock protects. To use one that was made before a fork raises `Forked`
    in the child, except that leaving its `async with` block does nothing.
    """

    __slots__ = ()

    @property
    def token(self) -> int:
        """The fencing token: whatever the lock protects refuses one that is lower than it has seen."""
        return self._core.token

    @property
    def epoch(self) -> int:
        """Changes only where tokens start again; goes before the token when two are compared."""
        return self._core.epoch

    @property
    def name(self) -> str:
        """The name of its lock."""
        return self._core.name

    @property
    def depth(self) -> int:
        """How many times its task holds it."""
        return self._core.depth

    @property
    def is_held(self) -> bool:
        """Whether the lock is certainly held at this moment."""
        return self._core.is_held

    def remaining(self) -> float:
        """Seconds that the lock is certainly held without a further renewal."""
        return self._core.remaining()

    @property
    def why_lost(self) -> Optional[str]:
        """`expired`, `max_hold`, `abandoned`, `not_renewed`, `gone`, `broken` or `closed`; None unless it was lost."""
        return self._core.why_lost

    @property
    def lost(self) -> Lost:
        """The loss as an event."""
        return Lost(self._core)

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Has `callback(why)` called in this event loop, if the lock is lost before it is released."""
        _native._check_callable("callback", callback)
        _watch(self._core, callback)

    @property
    def release_requested(self) -> bool:
        """Whether somebody asked for the lock back since it was granted; only known of one that is `revocable`."""
        return self._core.release_requested

    def on_release_requested(self, callback: Callable[[], object]) -> None:
        """Has `callback()` called once in this event loop, if somebody asks for the lock back before it is released.

        At once if that was done already, and never where the lock is not `revocable`. It stays held until it is released.
        """
        _native._check_callable("callback", callback)
        loop = asyncio.get_running_loop()

        def tell() -> None:
            # The loop may be closed by now.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(callback)

        self._core.on_release_requested(tell)

    async def extend(self, ttl: Span) -> None:
        """Makes the lease last at least `ttl` seconds from now, and at every renewal.

        Raises `LockLost` when it is not held any more, and `Unavailable` when the store did not answer for `store_timeout`: the
        lock stays held for as long as `remaining` says.
        """
        await _ask(_native.Reactor.extend, self._core, ttl)

    def hold_at_least_for(self, span: Span) -> None:
        """However early it is released, the lock stays taken until `span` seconds after it was acquired (at most 24 hours).

        For jobs that several hosts start by clocks that differ: whoever comes a little later finds that it was done. The store
        keeps the lock then, also when this process ends; only `Client.close` with this guard unreleased gives it back before.
        Raises `Unsupported` where the layout cannot, `InvalidConfig` for more than 24 hours, `NotOwned` when it was released.
        """
        self._core.hold_at_least_for(span)

    async def export(self, ttl: Span) -> str:
        """Leaves the lock to a secret, which `Client.resume` takes over within `ttl` seconds, in this process or another.

        Nobody renews it meanwhile, and this guard is dead. Whoever knows the secret may take the lock: treat it as a password.
        Cancelling it gives the lock back, and so does a release meanwhile, which wins: then it raises `NotOwned`. Whatever else
        is asked of the guard until it is done is `Unavailable`. Raises `Unsupported` where the layout cannot, or its task holds
        it more than once: then it is still held.
        """
        return (await _ask(_native.Reactor.export, self._core, ttl)).secret

    async def downgrade(self) -> None:
        """Of a read/write lock: the writer becomes a reader, and nobody else writes in between. The token stays."""
        await _ask(_native.Reactor.change, self._core, False)

    async def try_upgrade(self) -> bool:
        """Of a read/write lock: whether this reader is the writer now, with a new token.

        It is if nobody else reads; else it says no at once, so that two readers cannot wait for one another.
        """
        return await _ask(_native.Reactor.change, self._core, True)

    async def release(self) -> _Outcome:
        """Gives the lock back, and says what the store found. Cancelling it does not take the release back.

        `released`; `kept`: its task still holds it. `expired`, `stolen`: it was lost before. `unknown`: the store did not
        say; the lock is free when its lease ends. Raises `NotOwned` the second time.
        """
        return await _ask(_native.Reactor.release, self._core, False)

    async def __aenter__(self) -> Guard:
        self._core.__enter__()
        return self

    async def __aexit__(self, exc_type: _Type = None, exc: _Exc = None, traceback: _Traceback = None, /) -> None:
        await _end(self._core, exc)


class Lost(_Around[_native.Guard]):
    """A guard's loss, as an `asyncio.Event` that nobody can set."""

    __slots__ = ()

    def is_set(self) -> bool:
        """Whether the lock was lost."""
        return self._core.lost.is_set()

    async def wait(self) -> bool:
        """Waits for the loss. False when the lock was released."""
        return await _ask(_native.Reactor.lost, self._core) is not None

    def __repr__(self) -> str:
        return repr(self._core.lost).replace("<lockwright.Lost", "<lockwright.aio.Lost", 1)
