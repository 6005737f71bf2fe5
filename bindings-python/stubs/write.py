"""Writes the stub of the native module: the types of `_lockwright.pyi` beside this, each with what `help` says of it at run time."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any, Iterator

TYPES = Path(__file__).with_name("_lockwright.pyi")


def stub() -> str:
    """What the stub has to be."""
    from lockwright import _lockwright

    lines = TYPES.read_text().split("\n")
    for node, thing in documented(ast.parse(TYPES.read_text()), _lockwright):
        docstring = inspect.getdoc(thing)
        if docstring is not None:
            # Lines are numbered from 1, and those above this one are still as they were.
            at: int = node.lineno if isinstance(node, ast.ClassDef) else node.end_lineno
            lines[at - 1] = lines[at - 1].removesuffix(" ...")
            lines[at:at] = written(docstring, node.col_offset + 4) + ([""] if lines[at] else [])
    return "\n".join(lines)


def documented(tree: ast.AST, owner: Any) -> Iterator[tuple[Any, Any]]:
    """Whatever may have a docstring, from the last to the first, so that the lines above it keep their numbers."""
    for node in reversed(getattr(tree, "body", [])):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
            thing = inspect.getattr_static(owner, node.name)
            if isinstance(node, ast.ClassDef):
                yield from documented(node, thing)
            yield node, thing


def written(docstring: str, indent: int) -> list[str]:
    """A docstring as it stands in a file."""
    text = f'"""{docstring}"""' if "\n" not in docstring else f'"""{docstring}\n"""'
    return [f"{' ' * indent}{line}" if line else "" for line in text.split("\n")]


if __name__ == "__main__":
    import lockwright

    Path(lockwright.__file__).with_name("_lockwright.pyi").write_text(stub())
