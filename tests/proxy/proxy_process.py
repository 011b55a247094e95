"""A real `sluice-proxy` as a process, in front of the engines that a test gives it."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import raw_http
from process_log import ProcessLog
from raw_http import Answer, Connection
from stuck_pipe import StuckPipe

START_S = 20.0
STOP_S = 40.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Proxy:
    """Starts with the constructor and is then ready; close() stops it and fails the test when it
    does not end with 0. Settings are its flags, with underscores. One thread at a time.
    """

    def __init__(
        self,
        build: Path,
        *instances: str,
        environment: Mapping[str, str] | None = None,
        ready: bool = True,
        output: ProcessLog | StuckPipe | None = None,
        **settings: object,
    ) -> None:
        self.program = build / "apps" / "sluice-proxy" / "sluice-proxy"
        assert self.program.exists(), f"{self.program} is not built"
        self.port = free_port()
        words: list[str] = ["--port", str(self.port)]
        for instance in instances:
            words += ["--instance", instance]
        if "arena_directory" not in settings:
            settings = {"arena": "off", **settings}
        for name, value in settings.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        self._log = output or ProcessLog()
        self._process = subprocess.Popen(
            [str(self.program), *words],
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self._wait_until("/readyz" if ready else "/livez")

    @property
    def pid(self) -> int:
        return self._process.pid

    def connect(self, **more: Any) -> Connection:
        return Connection(self.port, **more)

    def ask(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        timeout_s: float = raw_http.TIMEOUT_S,
    ) -> Answer:
        return raw_http.ask(self.port, method, target, body, headers, timeout_s=timeout_s)

    def metric(self, pattern: str) -> float:
        """The sum of all samples whose name with labels matches."""
        text = self.ask("GET", "/metrics").body.decode()
        samples = re.findall(r"^([^#\s]\S*?(?:\{[^\n]*\})?) (\S+)$", text, re.MULTILINE)
        found = [float(value) for name, value in samples if re.search(pattern, name)]
        assert found, f"no metric matches {pattern}:\n{text}"
        return sum(found)

    def resident_kib(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert found
        return int(found[1])

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float = STOP_S) -> int:
        return self._process.wait(seconds)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def log(self) -> str:
        return self._log.text()

    def close(self) -> None:
        try:
            if self.is_alive():
                self.terminate()
            code = self.wait()
            assert code == 0, f"sluice-proxy ended with {code}:\n{self.log()[-4000:]}"
        finally:
            if self.is_alive():
                self._process.kill()
                self._process.wait()
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _wait_until(self, target: str) -> None:
        deadline = time.monotonic() + START_S
        while not self._answers(target):
            if self.is_alive() and time.monotonic() < deadline:
                time.sleep(0.002)
                continue
            alive = self.is_alive()
            if alive:
                self._process.kill()
            code = self._process.wait()
            text = self.log()[-4000:]
            self._log.close()
            raise AssertionError(
                f"sluice-proxy does not answer {target} ({'alive' if alive else code}):\n{text}"
            )

    def _answers(self, target: str) -> bool:
        try:
            answer = self.ask("GET", target, timeout_s=1.0)
            return answer.status == 200
        except (OSError, raw_http.Broken):
            return False
