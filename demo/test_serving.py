"""The serving act notices what it must: a layer group that is missing from a committed hand-off."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_plant import problems

DEMO = Path(__file__).resolve().parent
PLANT = ("--plant", "drop-group")
FAULTY, GOOD, STREAMED = "one image", "text only", "streamed"


@pytest.fixture(scope="module")
def planted() -> tuple[int, str]:
    """Exit code and output of the serving act with the fault planted before its first case."""
    cases = [word for title in (FAULTY, GOOD, STREAMED) for word in ("--case", title)]
    done = subprocess.run(
        [sys.executable, DEMO / "serving.py", "--kind", "qwen2_5_vl", *cases, *PLANT],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1100,
        env=dict(os.environ),
        check=False,
    )
    print(done.stdout, done.stderr)
    return done.returncode, done.stdout


def test_the_exit_code_says_that_something_is_wrong(planted: tuple[int, str]) -> None:
    assert planted[0] == 1


def test_a_dropped_layer_group_is_found_and_reaches_no_answer(planted: tuple[int, str]) -> None:
    """Decode waits for the part until its deadline, then computes the prompt by itself."""
    said = problems(planted[1], FAULTY)
    assert "decode: kv.receive_failures is 1, not 0" in said
    assert "decode: kv.fallbacks is 1, not 0" in said
    assert "the answers differ" not in said


def test_the_requests_around_it_are_good(planted: tuple[int, str]) -> None:
    assert problems(planted[1], GOOD) == ""
