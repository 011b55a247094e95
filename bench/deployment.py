"""Engines, arena and proxy of a benchmark, started and stopped by `sluice up` itself.

Failure: RuntimeError with the end of `sluice up`'s output when it does not come up.
"""

import json
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

START_S = 900.0
STOP_S = 90.0
LOOK_S = 0.2
# Engines that share a few busy processors answer a probe late.
PROXY = ("access-log = false", 'health-timeout = "10s"')


@dataclass(frozen=True)
class EngineSpec:
    name: str
    role: str  # as a topology file says it; "colocated" for whatever brings its own connector
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


class Deployment:
    """A context manager. `ports`: by engine, and of the proxy."""

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
        self.ports = dict(zip(names, _free_ports(len(names)), strict=True))
        self.token = ""
        self._ready = folder / "ready.json"
        self._output = folder / "up.log"
        self._process: subprocess.Popen[bytes] | None = None
        lines = [
            f"log-dir = {_text(folder / 'logs')}",
            'ready-timeout = "14m"',
            "[arena]",
            f"directory = {_text(f'/dev/shm/sluice-bench-{folder.name}')}",
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
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [self._program, "up", self._file, "--ready-file", self._ready],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_ready()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _wait_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_S
        while not self._ready.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                lines = self._output.read_text(errors="replace").splitlines()
                raise RuntimeError("the engines did not come up:\n" + "\n".join(lines[-30:]))
            time.sleep(LOOK_S)
        if token := json.loads(self._ready.read_text()).get("engine_token_file"):
            self.token = Path(token).read_text()

    def _stop(self) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _free_ports(count: int) -> list[int]:
    holders = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(holder.getsockname()[1]) for holder in holders]
    for holder in holders:
        holder.close()
    return ports


# JSON's texts and lists are TOML's as well.
def _text(value: Any) -> str:
    return json.dumps(str(value))


def _list(values: tuple[str, ...]) -> str:
    return json.dumps(list(values))


def _table(values: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{name} = {_text(value)}" for name, value in values.items()) + " }"
