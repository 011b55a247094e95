"""Fixtures of the programs: `sluice` and `sluiced` with real arenas."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from arena_daemon import ArenaDaemon
from programs import TIMEOUT_S, Outcome, Sluice


@pytest.fixture(scope="session")
def sluice_program(build_dir: Path) -> Path:
    program = build_dir / "apps" / "sluice" / "sluice"
    assert program.exists(), f"{program} is not built"
    return program


@pytest.fixture
def sluice(sluice_program: Path, daemon: ArenaDaemon) -> Sluice:
    """`sluice` beside a running daemon."""
    return Sluice(sluice_program, daemon.directory)


@pytest.fixture
def run_daemon(sluiced: Path) -> Callable[..., Outcome]:
    """Runs `sluiced` with words that make it end by itself."""

    def run(*words: object, **environment: str) -> Outcome:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
        done = subprocess.run(
            [sluiced, *map(str, words)],
            capture_output=True,
            timeout=TIMEOUT_S,
            env={**kept, **environment},
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr.decode())

    return run


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        if name != "SLUICE_BUILD":
            monkeypatch.delenv(name)
