"""The Python end of the dispatcher: a thread that runs the Python code which the driver's own thread must not run."""

from __future__ import annotations

import atexit
import logging
import threading
from typing import Any, Callable, Union

from lockwright._lockwright import Events, Mailbox

_log = logging.getLogger("lockwright")

# How long the interpreter's exit waits for a callback or a handler that is running.
_PATIENCE = 1.0


def start(mailbox: Mailbox) -> None:
    attend(threading.Thread(target=_serve, args=(mailbox,), name="lockwright-dispatcher", daemon=True), mailbox)


def attend(thread: threading.Thread, to: Union[Mailbox, Events]) -> None:
    """Has the thread serve until the interpreter exits, which ends what it attends to."""
    thread.start()
    atexit.register(_dismiss, to, thread)


def _serve(mailbox: Mailbox) -> None:
    while _serve_one(mailbox):
        pass


# A function of its own, so that nothing of a call lives on until the next one.
def _serve_one(mailbox: Mailbox) -> bool:
    calls = mailbox.next()
    if calls is None:
        return False
    for function, arguments, answer in calls:
        found = _call(function, arguments)
        if answer is not None:
            answer(found)
    return True


def _dismiss(served: Union[Mailbox, Events], thread: threading.Thread) -> None:
    served.close()
    thread.join(_PATIENCE)


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*arguments)
    except BaseException:
        # Here is nobody to raise it to, and the thread must go on.
        _log.exception("a callback raised")
        return "it raised"


def ask(credentials: Callable[[], tuple[str, str]]) -> Union[tuple[str, str], str]:
    """The user and the password, or why there are none."""
    try:
        found: Any = credentials()
    except BaseException as error:
        _log.exception("the credentials callable raised")
        return f"the credentials callable raised {type(error).__name__}: {error}".encode(errors="replace").decode()
    if isinstance(found, tuple) and len(found) == 2 and all(map(_is_text, found)):
        return found
    # What it is instead may be half a secret.
    why = "the credentials callable must return (user, password), two strings without lone surrogates"
    _log.error(why)
    return why


def _is_text(part: object) -> bool:
    try:
        return isinstance(part, str) and part.encode() is not None
    except UnicodeEncodeError:
        return False
