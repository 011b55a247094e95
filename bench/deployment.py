"""Engines, arena and proxy of a benchmark, started and stopped by `sluice up` itself.

Failure: running.NotReady with the end of `sluice up`'s output when it does not come up.
"""

import contextlib
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
import process_family
from running import Running, free_ports

START_S = 900.0
STOP_S = 90.0
LOOK_S = 0.2
# Engines that share a few busy processors answer a probe late. An encoder that is given one image
# at a time hands each on as it is done, and the next stage begins; in a batch all wait for the
# last.
PROXY = ("access-log = false", 'health-timeout = "10s"', "running-max-encoder = 1")


@dataclass(frozen=True)
class EngineSpec:
    name: str
    role: str  # as a topology file says it; "colocated" for whatever brings its own connector
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


class Deployment:
    """A context manager. `ports`: by engine, and of the proxy. `arena`: its folder."""

    def __init__(
        self,
        build: Path,
        folder: Path,
        model: Path,
        engines: list[EngineSpec],
        *,
        args: tuple[str, ...],
        env: dict[str, str],
        python: str,
        arena_size: str = "1GiB",
        proxy: bool = False,
    ) -> None:
        self._program = build / "apps" / "sluice" / "sluice"
        self._folder = folder
        names = [engine.name for engine in engines] + (["proxy"] if proxy else [])
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.token = ""
        self.arena = f"/dev/shm/sluice-bench-{folder.name}-{os.getpid()}"
        self._ready = folder / "ready.json"
        self._output = folder / "up.log"
        self._running: Running | None = None
        lines = [
            f"log-dir = {_text(folder / 'logs')}",
            'ready-timeout = "14m"',
            "[arena]",
            f"directory = {_text(self.arena)}",
            f"size = {_text(arena_size)}",
            *(["[proxy]", f"port = {self.ports['proxy']}", *PROXY] if proxy else []),
            "[engine-defaults]",
            f"model = {_text(model)}",
            f"python = {_text(python)}",
            f"args = {_list(args)}",
            f"env = {_table(env)}",
        ]
        for engine in engines:
            lines += [
                "[[engine]]",
                f"name = {_text(engine.name)}",
                f"role = {_text(engine.role)}",
                f"port = {self.ports[engine.name]}",
                f"args = {_list(engine.args)}",
                f"env = {_table(engine.env)}",
            ]
        self._file = folder / "topology.toml"
        self._file.write_text("\n".join(lines) + "\n")

    def __enter__(self) -> Self:
        self._running = Running(
            [self._program, "up", self._file, "--ready-file", self._ready],
            self._output,
            self._ready.exists,
            start_s=START_S,
            stop_s=STOP_S,
            look_s=LOOK_S,
        ).__enter__()
        if token := json.loads(self._ready.read_text()).get("engine_token_file"):
            self.token = Path(token).read_text()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._running is not None
        self._running.__exit__(kind, error, trace)

    def cpu_s(self) -> float:
        """Processor time of everything that `sluice up` started, and its own."""
        assert self._running is not None
        return process_family.cpu_s(self._running.pid)

    def stopped(self) -> contextlib.AbstractContextManager[None]:
        """All of it stands still meanwhile: an engine may compute while nobody asks anything."""
        assert self._running is not None
        return process_family.stopped(self._running.pid)


# JSON's texts and lists are TOML's as well.
def _text(value: Any) -> str:
    return json.dumps(str(value))


def _list(values: tuple[str, ...]) -> str:
    return json.dumps(list(values))


def _table(values: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{name} = {_text(value)}" for name, value in values.items()) + " }"
