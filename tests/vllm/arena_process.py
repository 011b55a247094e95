"""A real `sluiced` with an arena of its own, for one test, and a way to damage what is in it."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import torch
from process_log import ProcessLog

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SLUICE_BUILD", ROOT / "build" / "release"))
START_S = STOP_S = 20.0


class ArenaProcess:
    """Starts, stops, kills and restarts the daemon of one arena folder. A context manager."""

    def __init__(self, size: str = "64MiB", start: bool = True) -> None:
        self.directory = tempfile.mkdtemp(prefix="sluice-test-", dir="/dev/shm")
        os.rmdir(self.directory)  # the daemon makes it
        self.size = size
        self._process: subprocess.Popen[bytes] | None = None
        self._log = ProcessLog()
        if start:
            self.start()

    def start(self) -> None:
        """Returns when the daemon answers an attach."""
        from sluice import _core

        self._process = subprocess.Popen(
            [
                BUILD / "apps" / "sluiced" / "sluiced",
                *("--directory", self.directory, "--size", self.size, "--admin-port", "0"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        deadline = time.monotonic() + START_S
        while True:
            try:
                _core.Client.attach(directory=self.directory, label="ready?", timeout=1.0).close()
                return
            except _core.Error as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"sluiced did not start: {error}\n{self.log()}") from error
                time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL: nothing is cleaned up."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM: the arena goes with the daemon."""
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(STOP_S) == 0, self.log()

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def log(self) -> str:
        return self._log.text()

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.resume()
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def flip_byte(directory: str, payload: torch.Tensor) -> None:
    """Flips one bit of the only place in the arena's data segments that holds these bytes."""
    wanted = payload.contiguous().view(torch.uint8).numpy().tobytes()
    places = []
    for path in Path(directory).iterdir():
        if path.is_file():
            content = path.read_bytes()
            at = content.find(wanted)
            if at >= 0:
                places.append((path, at + len(wanted) // 2))
    assert len(places) == 1, places
    path, at = places[0]
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
