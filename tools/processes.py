"""Nothing that a command started outlives it: orphans come to this process, are named and ended.

Linux only (child subreaper). Not thread-safe: one command at a time.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from process_family import children

PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Finished:
    """How a command ended. `left_behind` names processes that it should have stopped, and that are
    ended now.
    """

    exit_code: int
    timed_out: bool
    left_behind: list[str]


def adopt_orphans() -> None:
    """From now on, descendants whose parent died become children of this process."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass


def name_of(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return f"{pid}"
    return f"{pid} {b' '.join(words).decode(errors='replace').strip()[:120]}"


def end_orphans(grace_s: float) -> list[str]:
    """Waits up to `grace_s` for adopted processes to end by themselves, then names and kills the
    rest.
    """
    deadline = time.monotonic() + grace_s
    reap()
    while children(os.getpid()) and time.monotonic() < deadline:
        time.sleep(0.05)
        reap()
    named: list[str] = []
    while alive := children(os.getpid()):
        named += [name_of(pid) for pid in alive]
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in alive:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    return named


def run(
    command: Sequence[str | Path], log: Path, timeout_s: float, environment: dict[str, str]
) -> Finished:
    """Runs a command in its own process group with its output in `log`; requires adopt_orphans()
    before.

    At the timeout, and when this process is interrupted, the whole group is killed.
    """
    timed_out = False
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return Finished(process.returncode, timed_out, end_orphans(grace_s=3.0))
