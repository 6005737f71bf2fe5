"""Every name that the core tells bindings of is here, under the same name."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any, Iterator

import lockwright
import lockwright.aio
import pytest
from lockwright import _errors, _lockwright, _records

MANIFEST: dict[str, Any] = _lockwright._manifest()

STUB = ast.parse(Path(lockwright.__file__).with_name("_lockwright.pyi").read_text())

# What is another class's here: a method of Python's own name, or of a class that extends the one it is an operation of.
ELSEWHERE = {("Lock", "resize"): ("Semaphore", "resize"), ("MultiLock", "acquire"): ("MultiLock", "acquire_guard")}


def operations() -> Iterator[Any]:
    for of, methods in MANIFEST["operations"].items():
        for name, takes in methods.items():
            yield pytest.param(*ELSEWHERE.get((of, name), (of, name)), takes, id=f"{of}.{name}")


@pytest.mark.parametrize("module", [lockwright, lockwright.aio])
@pytest.mark.parametrize("of, name, takes", list(operations()))
def test_every_operation_is_a_method(module: Any, of: str, name: str, takes: list[str]) -> None:
    parameters = list(inspect.signature(getattr(getattr(module, of), name)).parameters)
    assert [what for what in takes if what not in parameters] == []


@pytest.mark.parametrize("of, name, takes", list(operations()))
def test_every_operation_is_in_the_stub(of: str, name: str, takes: list[str]) -> None:
    classes = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
    if of not in classes:
        return  # A class of Python's.
    [method] = [node for node in classes[of].body if isinstance(node, ast.FunctionDef) and node.name == name]
    known = [argument.arg for argument in method.args.args + method.args.kwonlyargs]
    assert [what for what in takes if what not in known] == []


@pytest.mark.parametrize(
    "table, options", [("lock", "LockOptions"), ("connect", "ConnectOptions"), ("require", "Requirements")]
)
def test_every_option_has_a_type(table: str, options: str) -> None:
    # Whoever wants a reentrant lock calls `rlock`.
    names = [name for name in MANIFEST["options"][table] if (table, name) != ("lock", "reentrant")]
    assert list(getattr(_records, options).__annotations__) == names


@pytest.mark.parametrize("call", [lockwright.Client.lock, lockwright.aio.Client.lock])
def test_every_option_of_a_lock_is_explained(call: Any) -> None:
    assert [name for name in _records.LockOptions.__annotations__ if f"`{name}`" not in (call.__doc__ or "")] == []


def test_every_option_of_a_connection_is_explained() -> None:
    unexplained = [name for name in MANIFEST["options"]["connect"] if f"`{name}`" not in (lockwright.connect.__doc__ or "")]
    assert unexplained == []


@pytest.mark.parametrize("record", MANIFEST["records"])
def test_every_record_has_its_fields(record: str) -> None:
    assert set(getattr(lockwright, record).__annotations__) == set(MANIFEST["records"][record])


def test_every_code_has_its_exception() -> None:
    known = {code: (error.code, error.retryable) for code, error in _errors.BY_CODE.items()}
    assert known == {error["code"]: (error["code"], error["retryable"]) for error in MANIFEST["errors"]}
    for error in _errors.BY_CODE.values():
        assert issubclass(error, lockwright.LockError) and getattr(lockwright, error.__name__) is error


def test_every_reason_and_outcome_is_told() -> None:
    stub = ast.unparse(STUB)
    [release] = [line for line in stub.splitlines() if "def release" in line and "Literal" in line]
    assert release.endswith(f"Literal[{', '.join(map(repr, MANIFEST['outcomes']))}]:")
    assert [why for why in MANIFEST["losses"] if f"`{why}`" not in (lockwright.Guard.why_lost.__doc__ or "")] == []
