"""A demo that cannot fail proves nothing: a planted fault must end in red, and be named.

One start of the engines for both faults: a case without a fault comes first and must be good, and
dropping a load comes last, since the engine does not survive it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parent
GOOD, FLIPPED, DROPPED = "text only", "one image", "other image, same text"


@pytest.fixture(scope="module")
def planted() -> tuple[int, str]:
    """Exit code and output of the demo with both faults planted."""
    cases = [word for title in (GOOD, FLIPPED, DROPPED) for word in ("--case", title)]
    faults = ["--plant", "flip-byte", "--plant", "drop-load"]
    done = subprocess.run(
        [sys.executable, DEMO / "run.py", "--kind", "qwen2_5_vl", *cases, *faults],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1100,
        env=dict(os.environ),
        check=False,
    )
    print(done.stdout, done.stderr)
    return done.returncode, done.stdout


def problems(output: str, case: str) -> str:
    """What the output says is wrong with a case, below its row; fails when there is no row."""
    lines = output.splitlines()
    rows = [place for place, line in enumerate(lines) if line.startswith(case + " ")]
    assert rows, f"no row for {case!r} in:\n{output}"
    below = []
    for line in lines[rows[0] + 1 :]:
        if not line.startswith("  "):
            break
        below.append(line)
    return "\n".join(line for line in below if line.startswith("  !"))


def test_the_exit_code_says_that_something_is_wrong(planted: tuple[int, str]) -> None:
    assert planted[0] == 1


def test_a_case_without_a_fault_is_good(planted: tuple[int, str]) -> None:
    assert problems(planted[1], GOOD) == ""


def test_a_flipped_byte_is_found_and_reaches_no_answer(planted: tuple[int, str]) -> None:
    """The first engine finds the damage and encodes by itself; the other one has nothing to use."""
    said = problems(planted[1], FLIPPED)
    assert "tower: corrupt is 1, not 0" in said
    assert "tower: local_encodes is 1, not 0" in said
    assert "blind: HTTP 500" in said
    assert "blind: hits is 0, not 1" in said
    assert "token" not in said  # no answer was made from the damaged bytes


def test_a_dropped_load_is_noticed(planted: tuple[int, str]) -> None:
    assert "tower: HTTP 500" in problems(planted[1], DROPPED)
