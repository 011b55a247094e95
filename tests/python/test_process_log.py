"""The tests' own view of what a process prints."""

import subprocess
import sys

from process_log import ProcessLog

LINES = 20_000
PROGRAM = f"for n in range({LINES}): print(n, flush=True)"


def test_reading_while_the_process_prints_loses_nothing() -> None:
    log = ProcessLog()
    try:
        with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=log) as process:
            while process.poll() is None:
                log.text()
        assert log.text().split() == [str(n) for n in range(LINES)]
    finally:
        log.close()
