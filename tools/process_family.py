"""A process and all that descend from it: what they cost, and a pause for all of them. Linux only.

Threads: any.
Failure: whoever ends meanwhile is left out.
"""

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path


def children(pid: int) -> list[int]:
    """Direct ones, zombies included."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # a thread that ended; the others may have some
                found += map(int, (task / "children").read_text().split())
    return found


def family(pid: int) -> Iterator[int]:
    """The process itself first."""
    left = [pid]
    while left:
        one = left.pop()
        yield one
        left += children(one)


def cpu_s(pid: int) -> float:
    """Processor time of a process's family, the ended ones that were waited for included."""
    per_s, total = os.sysconf("SC_CLK_TCK"), 0.0
    for one in family(pid):
        with contextlib.suppress(OSError):
            # The name in parentheses may hold anything; the state follows it.
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / per_s  # user, system, and the children's
    return total


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """The whole family stands still meanwhile."""
    found = list(family(pid))
    try:
        _signal(found, signal.SIGSTOP)
        yield
    finally:
        _signal(found, signal.SIGCONT)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
