from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

from lockwright._lockwright import Lock


def guarded(lock: Lock, function: Callable[..., Any]) -> Callable[..., Any]:
    # The lock would be free again before the first line of such a function runs.
    for later in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        if later(function):
            instead = "take a lock of lockwright.aio" if later is inspect.iscoroutinefunction else "hold it inside"
            raise TypeError(f"{function!r} runs after its call has returned, so this lock cannot guard it: {instead}")

    @functools.wraps(function)
    def holding(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return function(*args, **kwargs)

    return holding
