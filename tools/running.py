"""A program that is started, waited for until it serves, and ended by its number within a deadline.

Owner:   whoever enters the context; the process is ended when it leaves, also when entering fails.
Threads: one at a time.
Failure: NotReady with the end of the program's log, when it ends or is not ready in time.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

LOOK_S = 0.05
TAIL_LINES = 40


class NotReady(RuntimeError):
    """A program that did not come up: its name, and the end of its log."""


class Running:
    """A program with its output in `log`. A context manager: inside, `ready()` has been true.

    `ready` is asked every `look_s`, or as often as it likes to wait by itself.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        ready: Callable[[], bool],
        *,
        start_s: float,
        stop_s: float,
        look_s: float = LOOK_S,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """`environment`: all of it; None: this process's own."""
        self._command = [str(word) for word in command]
        self._log = log
        self._ready = ready
        self._start_s = start_s
        self._stop_s = stop_s
        self._look_s = look_s
        self._environment = environment
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.exit_code: int | None = None  # once it has ended; negative: the signal

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self._folder,
            )
        try:
            self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def said(self) -> str:
        """The end of its log."""
        lines = self._log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join(f"  | {line}" for line in lines)

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + self._start_s
        while not self._ready():
            name = Path(self._command[0]).name
            if (code := self._process.poll()) is not None:
                raise NotReady(f"{name} ended with exit code {code}\n{self.said()}")
            if time.monotonic() > deadline:
                raise NotReady(f"{name} is not up after {self._start_s:.0f} s\n{self.said()}")
            time.sleep(self._look_s)

    def _end(self) -> None:
        assert self._process is not None
        self.exit_code = end(self._process, self._stop_s)


def end(process: "subprocess.Popen[bytes] | subprocess.Popen[str]", stop_s: float) -> int:
    """Asks a process to end, kills it when it has not after `stop_s`; its exit code."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    return wait_or_kill(process, stop_s)


def wait_or_kill(process: "subprocess.Popen[bytes] | subprocess.Popen[str]", stop_s: float) -> int:
    try:
        return process.wait(stop_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


class Notified:
    """Where a program says that it serves: a datagram socket, as systemd has one for its services.

    Calling it waits a moment for that word.
    """

    def __init__(self, path: Path, wait_s: float = 0.2) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(wait_s)
        self.environment = {**os.environ, "NOTIFY_SOCKET": str(path)}

    def __call__(self) -> bool:
        try:
            return b"READY=1" in self._socket.recv(4096)
        except TimeoutError:
            return False

    def close(self) -> None:
        self._socket.close()


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody has at the moment, all different."""
    holders = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [int(holder.getsockname()[1]) for holder in holders]
    finally:
        for holder in holders:
            holder.close()
