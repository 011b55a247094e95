"""A scripted engine as a process; see stub_engine.cc."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import raw_http
from waiting import until

STOP_S = 10.0
Script = Mapping[str, Any]


class StubEngine:
    """Starts with the constructor, ends with close(). One thread at a time."""

    def __init__(
        self, build: Path, role: str, keep_alive_ms: int = 5000, **options: object
    ) -> None:
        program = build / "tests" / "proxy" / "stub_engine"
        assert program.exists(), f"{program} is not built"
        words = {"role": role, "keep-alive-ms": keep_alive_ms, **options}
        flags = [
            word
            for name, value in words.items()
            for word in (f"--{name.replace('_', '-')}", str(value))
        ]
        self.role = role
        self.command = [str(program), *flags]
        self.port = 0
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def instance(self) -> str:
        return f"{self.role}={self.url}"

    def start(self) -> None:
        """After kill(): on the same port again."""
        again = ["--port", str(self.port)] if self.port else []
        self._process = subprocess.Popen(
            [*self.command, *again], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split()
        assert words[:1] == ["ready"], f"{self.command} did not start"
        self.port = int(words[1])

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._end()

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._end()

    def _end(self) -> None:
        assert self._process is not None
        self._process.wait(STOP_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- the control endpoint ---

    def next(self, *scripts: Script) -> None:
        """What to do with the next requests, one each (or `times`)."""
        self._update({"next": list(scripts)})

    def always(self, **script: Any) -> None:
        """What to do with requests that nothing else is said about."""
        self._update({"default": script})

    def health(self, status: int) -> None:
        self._update({"health": status})

    def put_feature(self, identifier: str) -> None:
        answer = raw_http.ask(self.port, "POST", "/stub/feature", identifier.encode())
        assert answer.status == 200, answer.body

    def forget(self) -> None:
        """Forgets what was received and scripted."""
        until(lambda: self.counts()["in_flight"] == 0, "the engine is idle")
        answer = raw_http.ask(self.port, "DELETE", "/stub")
        assert answer.status == 200, answer.body

    def counts(self) -> dict[str, int]:
        counts = raw_http.ask(self.port, "GET", "/stub?counts").json()
        assert isinstance(counts, dict)
        return counts

    def requests(self, path: str = "") -> list[dict[str, Any]]:
        """What was received, in order; of one path only when it is given. Model lists are left
        out: a proxy asks for them on its own."""
        received = raw_http.ask(self.port, "GET", "/stub").json()["requests"]
        return [
            each
            for each in received
            if (each["path"] == path if path else each["path"] != "/v1/models")
        ]

    def only(self) -> dict[str, Any]:
        """The one request that was received."""
        received = self.requests()
        assert len(received) == 1, [each["path"] for each in received]
        return received[0]

    def _update(self, what: Mapping[str, Any]) -> None:
        answer = raw_http.ask(self.port, "POST", "/stub", json.dumps(what).encode())
        assert answer.status == 200, answer.body
