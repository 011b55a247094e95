"""tools/process_family.py: what descends from a process is measured and paused with it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import process_family

# A child that computes for ever and says so, and its parent, which only waits.
COMPUTES = "print('computes', flush=True)\nwhile True: pass"
WAITS = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_family_is_measured_stands_still_and_goes_on() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAITS, COMPUTES], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"computes\n"
        family = list(process_family.family(parent.pid))
        try:
            assert family[0] == parent.pid
            assert len(family) == 2
            with process_family.stopped(parent.pid):
                while {state_of(pid) for pid in family} != {"T"}:  # a signal takes a moment
                    pass
                spent = process_family.cpu_s(parent.pid)
            while process_family.cpu_s(parent.pid) <= spent:
                pass
        finally:
            for pid in reversed(family):  # the child first: its parent has to be there for it
                os.kill(pid, signal.SIGKILL)
