from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")


def test_a_typed_program(tmp_path: Path) -> None:
    program = Path(__file__).with_name("typed.py")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(program)]
    checked = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
