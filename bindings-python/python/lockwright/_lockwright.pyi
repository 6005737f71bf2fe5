from asyncio import Future
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Generic, Literal, Optional, TypeVar, Union, final

from typing_extensions import TypeAlias, Unpack, disjoint_base

from lockwright._election import Election
from lockwright._errors import LockError
from lockwright._once import Once
from lockwright._records import Arrival, ConnectOptions, Guarantees, Health, Inspection, LockOptions, Metrics, Requirements, Span
from lockwright._several import MultiLock, RwLock, Striped

_Type: TypeAlias = Optional[type[BaseException]]
_Exc: TypeAlias = Optional[BaseException]
_Traceback: TypeAlias = Optional[TracebackType]
_Outcome: TypeAlias = Literal["released", "kept", "expired", "stolen", "unknown"]
_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

__all__ = [
    "Answer",
    "Barrier",
    "Notifier",
    "Bundle",
    "Client",
    "Events",
    "Exported",
    "Guard",
    "Histogram",
    "Latch",
    "Lock",
    "Lost",
    "Mailbox",
    "RLock",
    "Reactor",
    "Semaphore",
    "Segments",
    "_HEADER",
    "_SET_SCRIPT",
    "__version__",
    "_check_callable",
    "_checked_token",
    "_generation",
    "_is_blocking",
    "_main_thread",
    "_manifest",
    "_release_all",
    "connect",
    "header_value",
    "read_header",
    "restored",
    "sql_condition",
    "key_range",
    "advisory_key",
]

__version__: Final[str]

def connect(
    url: Optional[str] = None,
    *,
    credentials: Optional[Callable[[], tuple[str, str]]] = None,
    **options: Unpack[ConnectOptions],
) -> Client:
    """Connects to the place that `url` names, else `LOCKWRIGHT_URL`, else a file of this user's.

    Nothing is sent before the first use. Times are numbers of seconds, texts such as `10s` and `500ms`, or timedeltas.
    What the address says goes before what is given here. `prefix`: put before every lock name, so that applications can
    share a store. `connect_timeout`: limit for making one connection (2). `response_timeout`: limit for one reply;
    after it the request is asked again (1). `store_timeout`: how long an operation goes on asking a store that does not
    answer (5). `ca`, `cert` and `key`: PEM files. `credentials` returns a user and a password and is asked at every new
    connection, by the thread that makes it or by one of the library's. When it raises, what needed the connection
    raises `AuthFailed`, which names the cause.
    """

def restored() -> None:
    """Says that this process was restored from a snapshot or a checkpoint of itself, which others may have been too.

    Call it once, before anything else uses this library. Every client then dials anew, as in a forked child. Guards
    made before are not believed: they are lost with the reason `closed`, using them raises `Forked`, and so does
    whatever waits; nothing is sent for them, since a copy of this process may still hold the lock. What nobody else
    gives back ends with its lease.
    """

@final
class Client:
    """One place where locks are kept. After a fork the child's copy connects by itself at its next use."""

    @property
    def address(self) -> str:
        """The address without credentials."""

    def lock(self, name: str, **options: Unpack[LockOptions]) -> Lock:
        """The lock called `name`. What is not given is as the address says, else as it says here.

        Times are numbers of seconds, texts such as `10s`, `500ms` and `2m`, or timedeltas. `ttl`: how long it stays
        ours without a renewal, 20 ms to 24 hours (30). `timeout`: how long to wait for others (-1, for ever). `renew`:
        whether it is renewed while it is held (True). `max_hold`: how long after the grant renewal ends (never).
        `at_least_for`: how long after the grant it stays taken however early it is released, as
        `Guard.hold_at_least_for` has it (0). `fair`: first come, first served over all processes (False). `rank`: with
        `fair`, how urgent it is, 0 to 9 (0): higher ranks go first, and every 10 s of waiting count as one rank.
        `revocable`: whether its holder listens for others who ask for it back (False), of which
        `Guard.on_release_requested` tells; only the layout `curator` has such a message. `layout`: how it lies in the
        store, such as `string`, and `format`: whose locks of that layout it joins, such as `redis-py`.
        `retry`: the first and the longest pause between two tries of a waiter that nobody tells of its turn (0.002,
        0.064). `label`: a text that `inspect` shows.

        Who comes from redis-py: its `timeout` is `ttl` here, and its `blocking_timeout` is `timeout`.

        Raises `InvalidConfig` for what cannot be, and `Unsupported` for what this store or layout cannot do.
        """

    def rlock(self, name: str, **options: Unpack[LockOptions]) -> RLock:
        """As `lock`, but its thread may acquire it again, through any RLock of that name of this client."""

    def multi_lock(self, names: Iterable[str], **options: Any) -> MultiLock:
        """The locks called `names`, to be held all at once. Options are those of `lock`; the timeout is for all of them."""

    def striped(self, name: str, segments: int, **options: Any) -> Striped:
        """The lock `name` cut into 1 to 256 `segments`. Options are those of `lock`."""

    def once(
        self,
        name: str,
        look: Callable[[], Optional[tuple[_T, bool]]],
        make: Callable[[int], _T],
        *,
        waits: bool = False,
        **options: Any,
    ) -> Once[_T]:
        """A job that one caller at a time does, such as to rebuild a cache entry: see `Once`. Options are those of `lock`.

        `waits`: callers wait for a fresh value though there is a stale one (False).
        """

    def election(self, name: str, **options: Any) -> Election:
        """One of many leads: see `Election`. Options are those of `lock`, but for `fair`, `rank` and `label`."""

    def guarded(self, key: str, **options: Any) -> Callable[[_F], _F]:
        """Decorates a function, so that every call of it holds the lock that `key` names:
        `@client.guarded("customer:{cid}")`.

        The names in braces are parameters of the function, filled in as `str.format` does from what each call was given
        or the parameters' defaults. Options are those of `lock`. Raises `InvalidConfig` where a name is no parameter,
        and `TypeError` for what runs after its call has returned, such as a coroutine function (for those there is
        `lockwright.aio`).
        """

    def _forget_orphans(self) -> None:
        """A client that is closed has nothing left to release."""

    def resume(self, secret: str, **options: Any) -> Guard:
        """Takes over a lock that somebody exported; its token is higher than the exporter's.

        It is held with this client's options and those given here: `ttl`, `renew`, `max_hold`, `at_least_for`,
        `layout`, `format` and `label`, as `lock` has them. Nothing is waited for. Raises `NotOwned` when somebody
        resumed it before, or its time ran out and somebody else has the lock; `InvalidConfig` for what is no secret.
        """

    def _exported(self, secret: str, **options: Unpack[LockOptions]) -> Lock: ...
    def ping(self) -> Health:
        """Whether locks can be had here, now: acquires a lock of its own and gives it back, which needs all the rights
        that locking needs.

        For readiness probes: about three requests. Raises `Unavailable` when nobody answers (at once where nobody
        listens, else after `store_timeout`), `AuthFailed` when a right is missing, `ForeignLayout`, `ProtocolError`,
        and `Closed`.
        """

    def drain(self, limit: Span) -> list[str]:
        """Begins nothing any more and waits until everything that this client holds was released, for at most `limit`
        seconds.

        For a program that is told to end. From the call on, acquisitions fail with `Closed`, also those that wait.
        Returns the names of the locks that are still held, none when all were released; `close` gives them back. Raises
        `Closed`.
        """

    def rwlock(self, name: str, **options: Unpack[LockOptions]) -> RwLock:
        """The read/write lock called `name`: many readers at once, or one writer. The options are those of `lock`, for
        both.

        First come, first served: a reader waits for a writer that came before it, and the other way round. A lock of
        the same name is something else: whoever comes second gets `ForeignLayout`.
        """

    def semaphore(self, name: str, permits: int = 1, *, take: int = 1, **options: Unpack[LockOptions]) -> Semaphore:
        """The semaphore called `name`, with `permits` permits, of which each acquisition takes `take`, all or none.

        Whoever first uses an idle one says how many permits it has, until it is resized. With `fair`, an acquisition
        that wants more than is free is not passed over by those that want less. The other options are those of `lock`.
        """

    def latch(self, name: str, count: int, *, idle: Optional[Span] = None) -> Latch:
        """The latch called `name`, which is open once it was counted down `count` times, by whomever.

        Whoever first uses it says how many. It is forgotten `idle` seconds (60 to 2,592,000, which is 30 days and the
        default) after anybody last used it, and open until then. A lock of the same name is something else: whoever
        comes second gets `ForeignLayout`.
        """

    def barrier(self, name: str, parties: int, *, ttl: Optional[Span] = None) -> Barrier:
        """The barrier called `name`, which opens whenever `parties` (1 to 10,000) wait for it at the same time.

        The place of a party that died stands for at most `ttl` seconds more (0.02 to 86,400; 30), and is another's
        then. Those who wait must name the same number of parties. A lock of the same name is something else: whoever
        comes second gets `ForeignLayout`.
        """

    def guarantees(self) -> Guarantees:
        """What locks of this client promise."""

    def require(self, **wanted: Unpack[Requirements]) -> None:
        """Raises `Unsupported` unless all of it is promised: of locks, or where `rwlock`, `semaphore`, `latch` or
        `barrier` are named, of each of them.

        Nobody holds a latch or a barrier, so `fenced`, `fair` and `reentrant` say nothing of them. Nothing is sent.
        """

    def inspect(self, name: str) -> Inspection:
        """What lies under `name`: who holds it, and how many wait; of a latch, how many are still to come."""

    def list(self) -> list[str]:
        """The names of the locks there are."""

    def break_lock(self, name: str, expected_token: int) -> bool:
        """Takes the lock from whoever holds it under that token, which `inspect` shows. Whether somebody did."""

    def metrics(self) -> Metrics:
        """What this client did in this process so far."""

    def close(self) -> None:
        """Gives back what is held and ends every wait with `Closed`."""

    def __enter__(self) -> Client: ...
    def __exit__(self, exc_type: _Type = None, exc: _Exc = None, traceback: _Traceback = None, /) -> None: ...

@disjoint_base
class Lock:
    """A named lock that behaves as `threading.Lock`. What `acquire` took outlives this object."""

    @property
    def name(self) -> str:
        """Its name, without the prefix of the address."""

    def acquire(self, blocking: bool = True, timeout: Span = -1) -> bool:
        """Whether the lock was acquired in time. A `timeout` of -1 is the lock's own."""

    def release(self) -> None:
        """Gives back what this thread acquired, else what another thread did.

        Raises `NotOwned` when nothing is held through this lock, `LockLost` when it was lost before.
        """

    def locked(self) -> bool:
        """Whether anybody holds the lock at this moment, in any process."""

    def inspect(self) -> Inspection:
        """Who holds it, and how many wait for it."""

    def break_lock(self, expected_token: int) -> bool:
        """Takes it from whoever holds it under that token, which `inspect` shows. Whether somebody did."""

    def request_release(self, expected_token: int) -> bool:
        """Asks whoever holds it under that token, which `inspect` shows, to give it back. Whether somebody does.

        Whose lock is `revocable` is told, here or with Curator, and goes on as it likes: `break_lock` takes it. Raises
        `Unsupported` where the layout has no such message.
        """

    def guarantees(self) -> Guarantees:
        """What it promises in its layout."""

    def acquire_guard(self, timeout: Optional[Span] = None) -> Guard:
        """Waits for the lock. Raises `LockTimeout` when others held it all the time."""

    def try_acquire(self) -> Optional[Guard]:
        """The lock, if it is free."""

    def resume(self, secret: str) -> Guard:
        """Takes the lock over from `secret`, as `Client.resume` does, with this lock's options."""

    def guarded(self, function: _F) -> _F:
        """Decorates a function, so that every call of it holds the lock."""

    def _is_held_here(self) -> bool: ...
    def _pin(self, guard: Guard, block: bool, who: int) -> None: ...
    def _unpin_block(self, who: int) -> Optional[Guard]: ...
    def _unpin(self, me: int) -> Guard: ...
    def _for_election(self) -> Lock: ...
    def __enter__(self) -> Guard: ...
    def __exit__(self, exc_type: _Type = None, exc: _Exc = None, traceback: _Traceback = None, /) -> None: ...

@final
class RLock(Lock):
    """A lock that the thread which holds it may acquire again, and no other thread release; as `threading.RLock`."""

@final
class Semaphore(Lock):
    """A named semaphore that behaves as `threading.BoundedSemaphore`, and whose permits end with their holder."""

    @property
    def take(self) -> int:
        """How many permits each acquisition takes."""

    def _unpin_several(self, n: int, me: int) -> list[Guard]: ...
    def acquire(self, blocking: bool = True, timeout: Optional[Span] = None) -> bool:
        """Whether the permits were acquired in time. Without a `timeout`, the semaphore's own."""

    def release(self, n: int = 1) -> None:
        """Gives back what `n` acquisitions took: this thread's, else those of other threads.

        Raises `OverReleased`, which is a `ValueError`, and gives back nothing, when fewer are held through this object;
        `LockLost` when one was lost before.
        """

    def locked(self) -> bool:
        """Whether an acquisition would have to wait at this moment."""

    def resize(self, permits: int) -> None:
        """Gives it so many permits, for everybody and for good. Nobody loses what it holds."""

@final
class Latch:
    """Whoever waits goes on once so many have counted it down. Made by `Client.latch`; nothing is held, nothing to
    release.
    """

    @property
    def name(self) -> str:
        """Its name, without the prefix of the address."""

    def wait(self, timeout: Optional[Span] = None) -> bool:
        """Waits until it is open, as `threading.Event.wait`. Whether it is; without a `timeout`, it is."""

    def count_down(self) -> int:
        """Counts it down by one; how many are still to come. An open one stays open.

        When it raises `Unavailable`, it is not known whether it was counted down. Two callers may be told the same
        number, where an answer was lost and asked for again: 0 does not mean that you were the last.
        """

    def count(self) -> int:
        """How many are still to come; of a latch that nobody used yet, its count."""

    def try_set_count(self, count: int) -> bool:
        """Has it count from `count`, if it is open or nobody used it yet. Whether it does."""

@final
class Barrier:
    """Whoever waits goes on once as many wait as there are parties; then it starts over. Made by `Client.barrier`.

    Unlike `threading.Barrier` it does not break: a party that dies, times out or is cancelled gives its place up, and
    the others go on waiting for whoever replaces it.
    """

    @property
    def name(self) -> str:
        """Its name, without the prefix of the address."""

    @property
    def parties(self) -> int:
        """How many have to wait for it to open."""

    def wait(self, timeout: Optional[Span] = None) -> Optional[Arrival]:
        """Waits until as many wait as there are parties, for at most `timeout` seconds: 0 goes on if this is the last one.

        `None` when it did not open in time. Raises `InvalidConfig` when those who wait name another number of parties,
        `LockLost` when this process was stopped for so long that it is not known whether it passed, and `Unavailable`
        when the store does not say so.
        """

    def waiting(self) -> int:
        """How many wait now; those whose process died count until their place's ttl is over."""

@final
class Guard:
    """A lock that is held.

    One that is collected unreleased gives a `ResourceWarning` and is not renewed any more, but not released: the
    collector may come in the middle of what the lock protects. To use one that was made before a fork raises `Forked`
    in the child, except that leaving its `with` block does nothing.
    """

    @property
    def token(self) -> int:
        """The fencing token: whatever the lock protects refuses one that is lower than it has seen."""

    @property
    def epoch(self) -> int:
        """Changes only where tokens start again; goes before the token when two are compared."""

    @property
    def name(self) -> str:
        """The name of its lock."""

    @property
    def depth(self) -> int:
        """How many times its thread holds it."""

    @property
    def is_held(self) -> bool:
        """Whether the lock is certainly held at this moment."""

    def remaining(self) -> float:
        """Seconds that the lock is certainly held without a further renewal."""

    @property
    def why_lost(self) -> Optional[str]:
        """`expired`, `max_hold`, `abandoned`, `not_renewed`, `gone`, `broken` or `closed`; None unless it was lost."""

    @property
    def lost(self) -> Lost:
        """The loss as an event."""

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Has `callback(why)` called once, if the lock is lost before it is released and this guard still exists.

        It is called on a thread of the library's, one callback after another; what it raises is logged.
        """

    @property
    def release_requested(self) -> bool:
        """Whether somebody asked for the lock back since it was granted; only known of one that is `revocable`."""

    def on_release_requested(self, callback: Callable[[], object]) -> None:
        """Has `callback()` called once, if somebody asks for the lock back before it is released and this guard still
        exists; at once if that was done already, and never where the lock is not `revocable`.

        The lock stays held until it is released. It is called as `on_lost` calls.
        """

    def extend(self, ttl: Span) -> None:
        """Makes the lease last at least `ttl` seconds from now, and at every renewal.

        Raises `LockLost` when it is not held any more, and `Unavailable` when the store did not answer for
        `store_timeout`: the lock stays held for as long as `remaining` says.
        """

    def hold_at_least_for(self, span: Span) -> None:
        """However early it is released, the lock stays taken until `span` seconds after it was acquired (at most 24
        hours).

        For jobs that several hosts start by clocks that differ: whoever comes a little later finds that it was done.
        The store keeps the lock then, also when this process ends; only `Client.close` with this guard unreleased gives
        it back before. Raises `Unsupported` where the layout cannot, `InvalidConfig` for more than 24 hours, `NotOwned`
        when it was released.
        """

    def export(self, ttl: Span) -> str:
        """Leaves the lock to a secret, which `Client.resume` takes over within `ttl` seconds, in this process or another.

        Nobody renews it meanwhile, and this guard is dead. Whoever knows the secret may take the lock: treat it as a
        password. Raises `Unsupported` where the layout cannot, or its thread holds it more than once: then it is still
        held. A release by another thread meanwhile wins: then it raises `NotOwned`.
        """

    def downgrade(self) -> None:
        """Of a read/write lock: the writer becomes a reader, and nobody else writes in between. The token stays."""

    def try_upgrade(self) -> bool:
        """Of a read/write lock: whether this reader is the writer now, with a new token.

        It is if nobody else reads; else it says no at once, so that two readers cannot wait for one another.
        """

    def release(self) -> Literal["released", "kept", "expired", "stolen", "unknown"]:
        """Gives the lock back, and says what the store found.

        `kept`: its thread still holds it. `expired`, `stolen`: it was lost before. `unknown`: the store did not say;
        the lock is free when its lease ends. Raises `NotOwned` the second time.
        """

    def _loss(self) -> Optional[BaseException]: ...
    def __enter__(self) -> Guard: ...
    def __exit__(self, exc_type: _Type = None, exc: _Exc = None, traceback: _Traceback = None, /) -> None: ...

@final
class Bundle:
    """Locks that are acquired together."""

    @property
    def names(self) -> list[str]: ...
    @property
    def address(self) -> str: ...
    def acquire(self, timeout: Optional[Span] = None) -> list[Guard]: ...

@final
class Segments:
    """The segments of a hot lock."""

    @property
    def count(self) -> int: ...
    @property
    def address(self) -> str: ...
    def index_for(self, key: str) -> int: ...
    def lock(self, index: int) -> Lock: ...
    def across(self, others: Sequence[Client]) -> Segments: ...
    def mark_sold_out(self, index: int) -> None: ...
    def restock(self) -> None: ...
    def any(self, timeout: Optional[Span] = None) -> Optional[tuple[int, Guard]]:
        """Which segment, and its guard; `None` once all are sold out."""

@final
class Exported:
    """A lock that was exported, for a task that may be gone before it is told the secret."""

    @property
    def secret(self) -> str: ...

@final
class Lost:
    """A guard's loss, as a `threading.Event` that nobody can set."""

    def is_set(self) -> bool:
        """Whether the lock was lost."""

    def wait(self, timeout: Optional[Span] = None) -> bool:
        """Waits for the loss. False when the time is over, or the lock was released."""

@final
class Histogram:
    """A distribution of times from 1 us to 19 hours, in seconds, each kept to two digits."""

    @property
    def count(self) -> int:
        """How many times it has."""

    @property
    def sum(self) -> float:
        """The sum of all, in seconds."""

    @property
    def max(self) -> float:
        """The longest of all, in seconds."""

    def quantile(self, q: float) -> float:
        """The time within which the fraction `q` (0 to 1) of all lies; 0 while there is none."""

    def at_most(self, bound: Span) -> int:
        """How many are not longer than `bound`: what a cumulative bucket of Prometheus counts."""

    def buckets(self) -> list[tuple[float, int]]:
        """The buckets that are not empty: the longest time of each, and how many are in it."""

@final
class Events:
    """The mailbox of the core's events. One for the process; a forked child has an empty one of its own."""

    def __new__(cls) -> Events: ...
    def set_level(self, level: Optional[int]) -> None:
        """Levels are numbered from 0, errors, to 4, traces."""

    def wait(self) -> Optional[list[dict[str, Any]]]:
        """What there is to tell of each, by name; `None` when there will be no more."""

    def close(self) -> None: ...

class _Job(int, Generic[_T_co]):
    """The number of a job, which ends with this."""

@final
class Reactor:
    """The jobs of one event loop."""

    def __new__(cls, call_soon: Callable[[Callable[[], None]], object]) -> Reactor: ...
    def fileno(self) -> int: ...
    def turn(self) -> None:
        """What the loop calls when the descriptor is readable."""

    def go_on(self) -> None:
        """What it calls behind the tasks that were told: sends what was gathered, and tells those that are left."""

    def take(self, number: _Job[_T]) -> _T:
        """The answer, once the future is done."""

    def forget(self, number: int) -> None:
        """The task that awaited the future is gone: nobody wants what it asked for."""

    def acquire(self, future: Future[None], lock: Lock, timeout: Optional[Span], who: int, as_in_threading: bool) -> _Job[Guard]: ...
    def begin(self, future: Future[None], of: Any, who: Optional[int], name: str, *given: Any) -> _Job[Any]:
        """Begins the operation of that name of a client, a lock, or whatever else is asked something, for `who`."""

    def export(self, future: Future[None], guard: Guard, ttl: Span) -> _Job[Exported]: ...
    def release(self, future: Future[None], guard: Guard, strictly: bool) -> _Job[_Outcome]:
        """`strictly`: a loss is an error."""

    def release_all(self, future: Future[None], guards: list[Guard], of_block: bool) -> _Job[list[Union[str, LockError]]]:
        """As `_release_all`."""

    def extend(self, future: Future[None], guard: Guard, ttl: Span) -> _Job[None]: ...
    def change(self, future: Future[None], guard: Guard, writes: bool) -> _Job[bool]:
        """Whether it holds now what it is to hold: all of a read/write lock with `writes`, else a reader's part."""

    def lost(self, future: Future[None], guard: Guard) -> _Job[Optional[str]]:
        """Why the guard was lost, or `None` when it was released."""

    def give_back(self, guard: Guard) -> None:
        """Has a guard that is of no use any more given back, in the background."""

def _release_all(guards: list[Guard], of_block: bool) -> list[Union[str, LockError]]: ...

@final
class Notifier:
    """What the driver's thread notifies, without entering Python: a descriptor that the hub watches, and for whom it was
    notified.
    """

    def __new__(cls) -> Notifier: ...
    def fileno(self) -> int: ...
    def notified(self) -> list[int]:
        """For whom it was notified since the last look."""

def _generation() -> int: ...
def _main_thread(ident: int) -> None: ...

@final
class Mailbox:
    """The dispatcher's end of the mailbox."""

    def next(self) -> Optional[list[tuple[Callable[..., Any], tuple[Any, ...], Optional[Answer]]]]:
        """What is to be called, with what, and who wants the result; `None` when the dispatcher may go. Python calls it:
        no Rust frame may lie below code that the interpreter's exit can cut short.
        """

    def close(self) -> None: ...

@final
class Answer:
    """Takes what a call returned."""

    def __call__(self, found: Optional[tuple[str, str]]) -> None: ...

_SET_SCRIPT: Final[str]
_HEADER: Final[str]

def sql_condition(column: str, placeholder: str = "?") -> str:
    """A condition for the `WHERE` of an `UPDATE` that sets `column` to the token: rows that a higher token wrote stay as
    they are. That it changed no row means that the token is stale, or the row is not there. Raises `InvalidConfig` for
    a column or a placeholder that is empty, has more than 1024 bytes or a control character.
    """

def key_range(key: str) -> tuple[str, str]:
    """The keys below `key`, a lock's name with the address's prefix before it, in a store of keys and revisions: from the
    first to before the second. A transaction that compares the creation revisions of this range with the token to be
    *not equal* finds them so once the lock is lost; what is to be written only while it is held stands in its failure
    branch. Raises `InvalidConfig` for what is no lock's key: empty, above 1536 bytes, or with a control character.
    """

def advisory_key(key: str) -> int:
    """The number by which PostgreSQL knows the advisory lock of `key`, a lock's name with the address's prefix before it:
    for `pg_advisory_xact_lock`, as `kit.advisory_lock` says it. Raises `InvalidConfig` as `kit.key_range` does.
    """

def _check_callable(what: str, given: object) -> None:
    """Refuses what cannot be called later."""

def _is_blocking(blocking: object) -> bool:
    """Whether a call of asyncio waits, as one of a thread does."""

def _checked_token(token: int, epoch: int) -> tuple[int, int]: ...
def header_value(token: int, epoch: int = 0) -> str:
    """The value of the header."""

def read_header(value: str) -> Optional[tuple[int, int]]:
    """Epoch and token of a header; None for what is none. What comes without one is to be refused as well."""

def _manifest() -> dict[str, Any]: ...
