"""What the interop tests talk to: a Mooncake client, and Sluice's codec."""

from __future__ import annotations

import json
import select
import subprocess
from pathlib import Path
from typing import Any

import pytest

START_S = 30.0
ANSWER_S = 30.0
STOP_S = 10.0
LOG_TAIL = 3000


def tail(log: Path) -> str:
    """The end of a log."""
    return log.read_text(errors="replace")[-LOG_TAIL:]


class MooncakePeer:
    """Talks to mooncake_peer.py. Every request has a deadline."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.log = log

    def _line(self, timeout: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], timeout)
        line = self.process.stdout.readline() if readable else ""
        if not line:
            pytest.fail(f"the Mooncake client gave no answer:\n{tail(self.log)}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def wait_until_ready(self) -> None:
        """Returns when the store is set up."""
        assert self._line(START_S) == {"ready": True}

    def ask(self, op: str, key: str, file: Path, **more: Any) -> dict[str, Any]:
        """One request and its answer; an error of the client fails the test."""
        assert self.process.stdin is not None
        self.process.stdin.write(
            json.dumps({"op": op, "key": key, "file": str(file), **more}) + "\n"
        )
        self.process.stdin.flush()
        answer = self._line(ANSWER_S)
        assert "error" not in answer, answer["error"]
        return answer


class ObjectTool:
    """Sluice's codec: elements to object and back."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program = program
        self.folder = folder

    def _run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *arguments],
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=False,
        )

    def encode(self, dtype: str, shape: tuple[int, ...], elements: bytes) -> bytes:
        """The object that Sluice stores for a tensor."""
        source, target = self.folder / "elements", self.folder / "object"
        source.write_bytes(elements)
        text = ",".join(map(str, shape)) or "scalar"
        done = self._run("encode", dtype, text, source, target)
        assert done.returncode == 0, done.stderr
        return target.read_bytes()

    def decode(self, content: bytes) -> tuple[str, tuple[int, ...], bytes]:
        """dtype, shape and elements of an object; fails when Sluice refuses it."""
        source, target = self.folder / "object", self.folder / "elements"
        source.write_bytes(content)
        done = self._run("decode", source, target)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        return said["dtype"], tuple(said["shape"]), target.read_bytes()

    def refusal(self, content: bytes) -> str:
        """Why Sluice refuses an object; fails when it does not."""
        source = self.folder / "object"
        source.write_bytes(content)
        done = self._run("decode", source, self.folder / "elements")
        assert done.returncode == 1, done
        return done.stderr
