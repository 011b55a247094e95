"""tools/running.py: a program is there when it is needed, and gone when it is not."""

import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
from running import Notified, NotReady, Running

TELLS = """
import os, signal, socket, sys
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
    out.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
signal.pause()
"""


def program(folder: Path, *words: str, stop_s: float = 30.0) -> Running:
    """One that says when it is ready, then waits for a signal."""
    ready = Notified(folder / "notify")
    return Running(
        [sys.executable, "-c", TELLS, *words],
        folder / "log",
        ready,
        start_s=60.0,
        stop_s=stop_s,
        look_s=0.0,
        environment=ready.environment,
    )


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_program_is_ready_inside_and_ended_outside(tmp_path: Path) -> None:
    with program(tmp_path) as running:
        assert is_there(running.pid)
    assert running.exit_code == -signal.SIGTERM
    assert not is_there(running.pid)


def test_a_program_that_will_not_end_is_killed(tmp_path: Path) -> None:
    with program(tmp_path, "stubborn", stop_s=0.2) as running:
        pass
    assert running.exit_code == -signal.SIGKILL
    assert not is_there(running.pid)


def test_a_program_that_ends_too_soon_is_named_with_its_last_words(tmp_path: Path) -> None:
    words = "import sys; sys.exit('no arena')"
    early = Running(
        [sys.executable, "-c", words], tmp_path / "log", lambda: False, start_s=60.0, stop_s=1.0
    )
    with pytest.raises(NotReady, match=r"ended with exit code 1\n  \| no arena"), early:
        pass


def test_a_program_that_never_gets_ready_is_ended(tmp_path: Path) -> None:
    words = "import signal; signal.pause()"
    late = Running(
        [sys.executable, "-c", words], tmp_path / "log", lambda: False, start_s=0.1, stop_s=30.0
    )
    with pytest.raises(NotReady, match="is not up after"), late:
        pass
    assert late.exit_code == -signal.SIGTERM
    assert not is_there(late.pid)
