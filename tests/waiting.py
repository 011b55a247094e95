"""Waiting for a condition, with a deadline."""

import time
from collections.abc import Callable


def until(
    condition: Callable[[], bool], what: str, seconds: float = 30.0, poll_s: float = 0.001
) -> None:
    """Returns when the condition holds; fails the test when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(poll_s)
