"""Writes what `help` says of the native module at run time into its stub, whose types are written by hand."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any, Iterator

STUB = Path(__file__).parents[1] / "python" / "lockwright" / "_lockwright.pyi"


def stub() -> str:
    """What the stub has to be."""
    from lockwright import _lockwright

    text = STUB.read_text()
    lines = text.split("\n")
    for node, thing in documented(ast.parse(text), _lockwright):
        docstring = inspect.getdoc(thing)
        if docstring is None:
            continue
        # Lines are numbered from 1, and those above this one are still as they were.
        if ast.get_docstring(node) is not None:
            old = node.body[0]
            at = old.lineno - 1
            del lines[at : old.end_lineno]
        else:
            at = node.lineno if isinstance(node, ast.ClassDef) else node.end_lineno
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
    STUB.write_text(stub())
