"""The tree's README: its programs for Python run as they are typed."""

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_first_locks_of_the_readme(tmp_path: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert len(programs) == 2
    environment = {name: value for name, value in os.environ.items() if name != "LOCKWRIGHT_URL"}
    for program in programs:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**environment, "XDG_STATE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert re.fullmatch(r"fencing token \d+\n", done.stdout), done
