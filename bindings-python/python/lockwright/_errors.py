from __future__ import annotations

from typing import ClassVar, Optional, Sequence


class LockError(Exception):
    """Whatever goes wrong with a lock. `code` is the same in every language; the text says what can be done."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    """Whether the same call may succeed later without a change to the program or its settings."""
    operation: Optional[str]
    """What was being done, such as `acquire`."""
    lock: Optional[str]
    """The lock's name."""
    store: Optional[str]
    """The store's address without credentials."""

    def __init__(
        self,
        *args: object,
        operation: Optional[str] = None,
        lock: Optional[str] = None,
        store: Optional[str] = None,
    ) -> None:
        super().__init__(*args)
        self.operation = operation
        self.lock = lock
        self.store = store


class LockTimeout(LockError, TimeoutError):
    """Somebody else held the lock for the whole time."""

    code = "timeout"
    retryable = True


class NotOwned(LockError, RuntimeError):
    """What was to be released is not held."""

    code = "not_owned"


class OverReleased(NotOwned, ValueError):
    """A semaphore was released more often than it was acquired, which `threading` raises as a `ValueError`."""


def over_released(error: Exception) -> Exception:
    if type(error) is not NotOwned:
        return error
    return OverReleased(*error.args, operation=error.operation, lock=error.lock, store=error.store)


class LockLost(LockError):
    """The lease ended while the lock was held: somebody else may have been in the critical section too."""

    code = "lost"
    retryable = True


class Cancelled(LockError):
    """The caller gave up waiting."""

    code = "cancelled"


class Unavailable(LockError):
    """The store did not answer within `store_timeout`."""

    code = "unavailable"
    retryable = True


class QuorumFailed(LockError):
    """Too few nodes of a quorum granted the lock."""

    code = "quorum"
    retryable = True


class InvalidConfig(LockError, ValueError):
    """The address, an option or an argument is wrong; nothing was sent."""

    code = "invalid_config"


class Unsupported(LockError):
    """The store or layout cannot do what was asked."""

    code = "unsupported"


class ForeignLayout(LockError):
    """The store holds something else under the lock's name."""

    code = "foreign_layout"


class Deadlock(LockError):
    """Waiting would never end."""

    code = "deadlock"


class Forked(LockError):
    """A guard that was made before a fork was used in the child."""

    code = "forked"


class Closed(LockError):
    """The client was closed."""

    code = "closed"


class AuthFailed(LockError):
    """The store refused the credentials, or they lack a right."""

    code = "auth"


class ProtocolError(LockError):
    """The other side does not speak the store's protocol."""

    code = "protocol"


class InternalError(LockError):
    """A defect of this library."""

    code = "internal"


def first_of(errors: Sequence[BaseException]) -> BaseException:
    """The first of several errors, with a note on each of the others, which a traceback shows from Python 3.11 on."""
    first, *others = errors
    notes = [f"and {type(other).__name__}: {other}" for other in others]
    if notes:
        setattr(first, "__notes__", [*getattr(first, "__notes__", ()), *notes])
    return first


BY_CODE = {error.code: error for error in LockError.__subclasses__()}
