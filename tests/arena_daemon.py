"""A real `sluiced` with an arena of its own, for one test."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from process_log import ProcessLog
from stuck_pipe import StuckPipe

START_S = 60.0
LOOK_S = 0.2  # at a daemon that has not said that it is ready
STOP_S = 40.0
SHARED_MEMORY = Path("/dev/shm")


class ArenaDaemon:
    """Starts, kills, restarts and stops the daemon of one arena folder. One thread at a time.

    start() returns when the daemon says that it is ready. stop() asks it to end, and fails the test
    when it does not, when it ends with an error, or when it leaves anything in shared memory.
    """

    def __init__(
        self,
        program: Path,
        size: str = "64MiB",
        *options: str,
        output: ProcessLog | StuckPipe | None = None,
    ) -> None:
        self.program = program
        self.folder = Path(tempfile.mkdtemp(prefix="sluice-pytest-", dir=SHARED_MEMORY))
        self.directory = str(self.folder / "arena")
        self.size = size
        self.options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._log = output or ProcessLog()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Waits on the datagram that the daemon sends its starter (sd_notify), not on a clock."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(str(self.folder / "notify"))
            notify.settimeout(LOOK_S)
            self._process = subprocess.Popen(
                [
                    self.program,
                    *("--directory", self.directory, "--size", self.size, "--admin-port", "off"),
                    *self.options,
                ],
                env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify")},
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
            )
            try:
                self._wait_until_ready(notify)
            finally:
                (self.folder / "notify").unlink()

    def _wait_until_ready(self, notify: socket.socket) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                if b"READY=1" in notify.recv(4096):
                    return
            code = self._process.poll()
            assert code is None, f"sluiced ended with {code} before it was ready:\n{self.log()}"
        raise AssertionError(f"sluiced is not ready after {START_S} s:\n{self.log()}")

    def kill(self) -> None:
        """SIGKILL: nothing is tidied up."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_S)

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self.resume()
        code = self._process.wait(STOP_S)
        assert code == 0, f"sluiced ended with {code}:\n{self.log()}"
        assert not Path(self.directory).exists(), f"left: {list(Path(self.directory).rglob('*'))}"

    def close(self) -> None:
        """Stops it if it runs, and whatever became of that leaves nothing."""
        try:
            if self._process is not None and self._process.poll() is None:
                self.stop()
        finally:
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
                self._process.wait(STOP_S)
            self._log.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        return self._log.text()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
