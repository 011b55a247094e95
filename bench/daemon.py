"""A real `sluiced` with an arena of its own, for as long as a measurement takes."""

import shutil
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
from running import Notified, Running

START_S = 120.0
STOP_S = 30.0
NS_PER_S = 1e9


class Daemon:
    """A context manager. Entering returns when the daemon says that it is ready, touch included.

    Raises running.NotReady with the end of the daemon's log when it does not start.
    """

    def __init__(self, build: Path, size: str, *options: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="sluice-bench-", dir="/dev/shm"))
        self.directory = str(self._folder / "arena")
        program = build / "apps" / "sluiced" / "sluiced"
        self._command: list[str | Path] = [
            *(program, "--directory", self.directory, "--size", size, "--admin-port", "off"),
            *options,
        ]
        self._running: Running | None = None

    def __enter__(self) -> Self:
        ready = Notified(self._folder / "notify")
        try:
            self._running = Running(
                self._command,
                self._folder / "log",
                ready,
                start_s=START_S,
                stop_s=STOP_S,
                look_s=0.0,
                environment=ready.environment,
            ).__enter__()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        finally:
            ready.close()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._running is not None
        self._running.__exit__(kind, error, trace)
        shutil.rmtree(self._folder, ignore_errors=True)

    def cpu_seconds(self) -> float:
        """Processor time of all threads so far, as the scheduler counted it."""
        assert self._running is not None
        tasks = Path(f"/proc/{self._running.pid}/task")
        return sum(
            int((task / "schedstat").read_text().split()[0]) / NS_PER_S for task in tasks.iterdir()
        )
