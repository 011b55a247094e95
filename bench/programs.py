"""Running the programs of this folder: those that print series, and those that take turns by lines.

A series is a list of samples with a name; see rig.h. Every process that is started here is ended
here.
"""

import json
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
from running import wait_or_kill

PROGRAM_S = 600.0
LINE_S = 120.0

Series = dict[str, list[float]]


def run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Series:
    """Runs a program to its end and returns its series. Raises RuntimeError with what it said."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        env=environment,
        check=False,
    )
    if done.returncode != 0:
        words = " ".join(map(str, command))
        raise RuntimeError(f"{words}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return series_in(done.stdout)


def series_in(output: str) -> Series:
    """The series among the lines of a program's output."""
    found: Series = {}
    for line in output.splitlines():
        if line.startswith('{"series"'):
            entry = json.loads(line)
            found.setdefault(entry["series"], []).extend(entry["samples"])
    return found


def merged(parts: Sequence[Series]) -> Series:
    """Series of several runs of one program, joined in order, so that pairs stay pairs."""
    out: Series = {}
    for part in parts:
        for name, samples in part.items():
            out.setdefault(name, []).extend(samples)
    return out


class LineProcess:
    """A program that says `ready`, then answers each line with a number. A context manager.

    Leaving closes its input, and ends it when it does not end by itself.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = command
        self._log = log
        self._environment = environment

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                env=self._environment,
            )
        try:
            if self._line() != "ready":
                raise RuntimeError(f"{self._name()} did not start:\n{self._said()}")
        except BaseException:
            self._end(0.1)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(10.0)

    def ask(self, line: str) -> float:
        """Sends one line and returns the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return float(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], LINE_S)
        line = self._process.stdout.readline() if readable else ""
        if not line:
            raise RuntimeError(f"{self._name()} gave no answer:\n{self._said()}")
        return line.strip()

    def _end(self, wait_s: float) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        wait_or_kill(self._process, wait_s)
        self._process.stdout.close()

    def _name(self) -> str:
        return " ".join(str(word) for word in self._command[:3])

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]
