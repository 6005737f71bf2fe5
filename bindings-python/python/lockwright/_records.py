from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Dict, Optional, Tuple, TypedDict, Union

if TYPE_CHECKING:
    from lockwright._lockwright import Histogram

Span = Union[float, str, timedelta]
"""A length of time: a number of seconds, a text such as `10s`, `500ms`, `2m` or `1h`, or a timedelta."""


class LockOptions(TypedDict, total=False):
    """The options of a lock; `Client.lock` explains them."""

    ttl: Optional[Span]
    timeout: Optional[Span]
    renew: Optional[bool]
    max_hold: Optional[Span]
    at_least_for: Optional[Span]
    fair: Optional[bool]
    rank: Optional[int]
    revocable: Optional[bool]
    layout: Optional[str]
    format: Optional[str]
    retry: Optional[Tuple[Span, Span]]
    label: Optional[str]


class ConnectOptions(TypedDict, total=False):
    """The options of a connection; `connect` explains them."""

    prefix: Optional[str]
    connect_timeout: Optional[Span]
    response_timeout: Optional[Span]
    store_timeout: Optional[Span]
    ca: Union[str, PathLike[str], None]
    cert: Union[str, PathLike[str], None]
    key: Union[str, PathLike[str], None]


class Requirements(TypedDict, total=False):
    """What a program may insist on; see `Client.require`."""

    rwlock: bool
    semaphore: bool
    latch: bool
    barrier: bool
    fenced: bool
    fair: bool
    reentrant: bool
    shared: bool
    push: bool
    failover_safe: bool


@dataclass(frozen=True)
class Guarantees:
    """What locks of a client promise."""

    store: str
    layout: str
    exclusive_until: str
    """Until when a holder is the only one: `deadline`, `a step of a node's clock`, `store failover` or `clock skew`."""
    token: str
    """Until when fencing tokens rise: `always`, `with the store's clock`, `while the store keeps its data`, `while the process lives` or `none`."""
    fair: bool
    """Whether `fair` can be had."""
    reentrant: bool
    """Whether `Client.rlock` can be had."""
    shared: bool
    """Whether other processes see the locks."""
    push: bool
    """Whether waiters are told when it is their turn; otherwise they ask again by a timer."""
    survives_disconnect: bool
    """Whether what is held survives the loss of a connection."""
    incarnation: bool
    """Whether a late release or renewal can never touch a later hold of the same owner."""
    notes: tuple[str, ...]
    """What else there is to know."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lock."""

    owner: str
    """A hash that tells two holders apart."""
    host: str
    pid: int
    language: str
    label: str
    held_for: Optional[float]
    """Seconds, where the store can tell."""
    remaining: float
    """Seconds that the lease still lasts at the store; `inf` for a lease of another library that has no end."""
    first_token: int
    """0 for a holder that uses another library."""
    last_token: int
    """A process that hands the lock on among its threads has several; `Client.break_lock` takes any of them."""


@dataclass(frozen=True)
class Part:
    """What one of several holders has."""

    holds: str
    """`read`, `write`, or how many permits."""
    holder: Holder


@dataclass(frozen=True)
class Sharing:
    """Who holds a read/write lock or a semaphore."""

    primitive: str
    """`rwlock` or `semaphore`."""
    permits: Optional[int]
    """How many there are, of a semaphore."""
    holders: tuple[Part, ...]
    """In the order of their tokens: all, unless a store has no room for so many in one answer (on Redis some 2,300)."""
    unlisted: int
    """How many more hold it than these."""


@dataclass(frozen=True)
class Waiting:
    """Somebody in a queue."""

    host: str
    pid: int
    language: str
    label: str
    waited: Optional[float]
    """For how many seconds it has waited, where the store keeps since when."""
    rank: int
    """The `rank` of a fair lock, from 0 to 9; 0 of all else."""
    wants: Optional[str]
    """`read`, `write`, or how many permits; `None` of a lock."""


@dataclass(frozen=True)
class Counting:
    """How a latch stands."""

    count: int
    """How many are still to come; 0 once it is open."""


@dataclass(frozen=True)
class Inspection:
    """What is seen of a lock."""

    name: str
    layout: str
    holder: Optional[Holder]
    """`None` when the lock is free."""
    waiters: int
    """How many wait at the store."""
    ahead: tuple[int, ...] = ()
    """How many are ahead, at most, of each that waits by this client, in the order in which they came, as the store said last. Those who are not
    `fair` wait together, as one; who has no place in a queue is left out."""
    queue: tuple[Waiting, ...] = ()
    """Who waits in the store's queue, of all clients, whoever is served next first: at most the first 100. Empty where the layout keeps no
    queue, or not who stands in it."""
    primitive: Optional[str] = None
    """What lies there: `lock`, `rwlock`, `semaphore`, `latch` or `barrier`, held or remembered; `None` where nothing does."""
    shared: Optional[Sharing] = None
    """For a read/write lock or a semaphore: what it is, and all who hold it; `holder` is the first of them."""
    latch: Optional[Counting] = None
    """For a latch: how it stands. Nobody holds one; who waits is in `waiters`, also who went without a word."""


@dataclass(frozen=True)
class Health:
    """What a `ping` found."""

    took: float
    """Seconds to acquire a lock and to give it back: two round trips, and a connection where there was none."""
    eviction: Optional[str]
    """What the store does when its memory is full, such as `noeviction` of Redis, where it has such a thing and this user may ask."""

    may_evict: bool
    """Whether the store may throw held locks away when its memory is full."""


@dataclass(frozen=True)
class Arrival:
    """How a party went on. Made by `Barrier.wait`."""

    index: int
    """Which of its generation it was, in the order of arrival: 0 to one less than there are parties, each once."""
    generation: int
    """Rises by one whenever the barrier opens. After minutes without use it goes on from the store's clock."""


@dataclass(frozen=True)
class Metrics:
    """What a client did in this process since it was connected, all of the same moment. A forked child begins at zero."""

    held: int
    """Locks held now. A lock entered again by its owner is held once."""
    waiting: int
    """Acquisitions under way now."""
    acquired: int
    """Acquisitions granted."""
    reentered: int
    """Of these: by the lock's holder, which entered it again."""
    hand_offs: int
    """Of these: passed on within this process without a word to the store."""
    contended: int
    """Acquisitions that found the lock taken and waited for it, whatever became of them."""
    refused: int
    """Acquisitions that only tried and found the lock taken."""
    timeouts: int
    """Acquisitions that reached their time limit."""
    cancelled: int
    """Acquisitions whose caller went away."""
    failed: int
    """Acquisitions that failed for another reason."""
    renewals: int
    """Renewals that the store confirmed."""
    renewal_failures: int
    """Renewals without an answer, or refused; each is tried again until the lease is over."""
    lost: Dict[str, int]
    """Holds that were lost, by `Guard.why_lost`; also the reasons that never were."""
    requests: int
    """Requests made of the store, each renewal of a batch counted."""
    round_trips: int
    """Round trips to the store: a batch of renewals is one."""
    reconnects: int
    """Times that the store answered again after it had not."""
    wait: Histogram
    """How long the granted acquisitions took, from asking to having."""
    hold: Histogram
    """How long locks were held, from the grant to the release or the loss."""
