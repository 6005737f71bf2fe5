from __future__ import annotations

import functools
import inspect
import string
from typing import Any, Callable, Dict, Tuple

from lockwright._errors import InvalidConfig
from lockwright._lockwright import Client, Lock, _check_callable


_Function = Callable[..., Any]
LockOf = Callable[[Tuple[Any, ...], Any], Any]
"""The lock that a call with these arguments holds."""


def guarded(lock: Lock, function: _Function) -> _Function:
    return holding(function, lambda args, kwargs: lock)


def guarded_by_key(client: Client, key: str, **options: Any) -> Callable[[_Function], _Function]:
    return by_key(client, key, options, holding)


def by_key(client: Any, key: str, options: Dict[str, Any], holding: Callable[[Any, LockOf], Any]) -> Callable[[Any], Any]:
    """What decorates a function, so that `holding` has every call of it hold the lock that `key` names."""
    # What is wrong with the options is told here, and not at the first call.
    client.lock(key, **options)

    def decorate(function: Any) -> Any:
        name_of = namer(key, function)
        return holding(function, lambda args, kwargs: client.lock(name_of(args, kwargs), **options))

    return decorate


def holding(function: _Function, lock_of: LockOf) -> _Function:
    _check_callable("what is guarded", function)
    refuse_later(function)

    @functools.wraps(function)
    def held(*args: Any, **kwargs: Any) -> Any:
        with lock_of(args, kwargs):
            return function(*args, **kwargs)

    return held


def refuse_later(function: Callable[..., Any]) -> None:
    # The lock would be free again before the first line of such a function runs.
    for later in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        if later(function):
            instead = "take a lock of lockwright.aio" if later is inspect.iscoroutinefunction else "hold it inside"
            raise TypeError(f"{function!r} runs after its call has returned, so this lock cannot guard it: {instead}")


def namer(key: str, function: Callable[..., Any]) -> Callable[[Tuple[Any, ...], Any], str]:
    """What makes a lock's name of a key, such as `customer:{cid}`, and the arguments of a call of `function`."""
    signature = inspect.signature(function)
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(key) if field is not None]
    except ValueError as error:
        raise InvalidConfig(
            f"the key {key!r} is no format: {error}; write {{{{ and }}}} for braces themselves", operation="lock"
        ) from None
    for field in fields:
        name = field.partition(".")[0].partition("[")[0]
        if name not in signature.parameters:
            known = ", ".join(signature.parameters) or "none"
            shown = getattr(function, "__qualname__", repr(function))
            raise InvalidConfig(
                f"the key {key!r} names {name!r}, which is no parameter of {shown}; it has {known}", operation="lock"
            )

    def name_of(args: Tuple[Any, ...], kwargs: Any) -> str:
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        return key.format(**call.arguments)

    return name_of
