"""The programs as a person runs them, and what they answer."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Outcome:
    """What a program answered."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def json(self) -> Any:
        return json.loads(self.out)


class Sluice:
    """Runs `sluice` against one arena folder, without a terminal."""

    def __init__(self, program: Path, directory: str) -> None:
        self.program = program
        self.directory = directory

    def __call__(
        self, *words: object, code: int | None = 0, stdin: bytes = b"", **more: str
    ) -> Outcome:
        """`code`: the exit code that is expected; None: any. `more`: environment variables."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
        environment |= {"SLUICE_DIRECTORY": self.directory} | more
        done = subprocess.run(
            [self.program, *map(str, words)],
            input=stdin,
            capture_output=True,
            timeout=TIMEOUT_S,
            env=environment,
            check=False,
        )
        outcome = Outcome(done.returncode, done.stdout, done.stderr.decode())
        if code is not None:
            assert outcome.code == code, f"{words}: {outcome}"
        return outcome
