"""`help` says at run time what the stub says to editors."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import lockwright
import lockwright.aio
import pytest

STUBS = Path(__file__).parent.parent / "stubs"


def test_the_stub_has_what_help_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(STUBS))
    stub = importlib.import_module("write").stub()
    assert Path(lockwright.__file__).with_name("_lockwright.pyi").read_text() == stub, "run bindings-python/stubs/write.py"


@pytest.mark.parametrize("module", [lockwright, lockwright.aio])
def test_whatever_is_public_has_a_docstring(module: object) -> None:
    missing = []
    for name in module.__all__:  # type: ignore[attr-defined]
        thing = getattr(module, name)
        if not inspect.isclass(thing):
            continue
        members = [member for member in vars(thing) if not member.startswith("_")]
        for member in members:
            value = inspect.getattr_static(thing, member)
            is_told = callable(value) or isinstance(value, property) or inspect.isgetsetdescriptor(value)
            if is_told and not getattr(thing, member).__doc__:
                missing.append(f"{name}.{member}")
        if not thing.__doc__:
            missing.append(name)
    assert not missing


def test_help_of_a_method_says_how_it_is_called() -> None:
    assert "timeout" in str(inspect.signature(lockwright.Lock.acquire))
    assert "ttl" in (lockwright.Client.lock.__doc__ or "")
