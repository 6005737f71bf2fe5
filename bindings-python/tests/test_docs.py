"""`help` says at run time what the stub says to editors."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Iterator

import lockwright
import lockwright.aio
import pytest

STUB = Path(lockwright.__file__).with_name("_lockwright.pyi")


def public() -> Iterator[tuple[str, "ast.FunctionDef | ast.ClassDef"]]:
    """Whatever a program may use, by its dotted name below `lockwright`."""
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in lockwright.__all__:
            yield node.name, node
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                    yield f"{node.name}.{member.name}", member


@pytest.mark.parametrize("name, node", list(public()), ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_native_says_what_its_stub_says(name: str, node: "ast.FunctionDef | ast.ClassDef") -> None:
    thing = lockwright
    for part in name.split("."):
        thing = getattr(thing, part)
    written = ast.get_docstring(node)
    assert written, "the stub has no docstring"
    assert inspect.cleandoc(thing.__doc__ or "") == written


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
