"""How much the long tests do: little in `make test`, everything with SLUICE_SOAK=1."""

import os
from pathlib import Path

SOAK = os.environ.get("SLUICE_SOAK") == "1"
LOGS = Path(__file__).resolve().parents[2] / "build" / "test"


def count(small: int, full: int) -> int:
    return full if SOAK else small
