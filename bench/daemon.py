"""A real `sluiced` with an arena of its own, for as long as a measurement takes."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

START_S = 120.0
LOOK_S = 0.2  # how often a daemon that says nothing is looked after
STOP_S = 30.0
NS_PER_S = 1e9


class Daemon:
    """A context manager. Entering returns when the daemon says that it is ready, touch included.

    Raises RuntimeError with the daemon's log when it does not start.
    """

    def __init__(self, build: Path, size: str, *options: str) -> None:
        self._program = build / "apps" / "sluiced" / "sluiced"
        self._options = ["--size", size, "--admin-port", "off", *options]
        self._folder = Path(tempfile.mkdtemp(prefix="sluice-bench-", dir="/dev/shm"))
        self.directory = str(self._folder / "arena")
        self._log = self._folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def cpu_seconds(self) -> float:
        """Processor time of all threads so far, as the scheduler counted it."""
        assert self._process is not None
        tasks = Path(f"/proc/{self._process.pid}/task")
        return sum(
            int((task / "schedstat").read_text().split()[0]) / NS_PER_S for task in tasks.iterdir()
        )

    def _start(self) -> None:
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify,
            self._log.open("wb") as log,
        ):
            notify.bind(str(self._folder / "notify"))
            notify.settimeout(LOOK_S)
            self._process = subprocess.Popen(
                [self._program, "--directory", self.directory, *self._options],
                env={**os.environ, "NOTIFY_SOCKET": str(self._folder / "notify")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            deadline = time.monotonic() + START_S
            while not self._said_ready(notify):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    text = self._log.read_text(errors="replace")
                    raise RuntimeError(f"sluiced did not become ready:\n{text}")

    @staticmethod
    def _said_ready(notify: socket.socket) -> bool:
        try:
            return b"READY=1" in notify.recv(4096)
        except TimeoutError:
            return False

    def _stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
