from __future__ import annotations

import sys
import warnings
from typing import Type


def warn(message: str, category: Type[Warning]) -> None:
    """Warns of what the program's own line does, whatever of this package stands between: so it is told once for each line."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "lockwright":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
