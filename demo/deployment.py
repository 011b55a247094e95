"""Starts and stops what a topology file describes, through `sluice up`, and waits until every
engine answers.

Failure: DeploymentError with the end of the log, when `sluice up` ends or an engine does not come
up in time.
"""

import socket
import sys
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import tomllib
from engines import Engine

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
from running import NotReady, Running

ROOT = Path(__file__).resolve().parent.parent
SLUICE = ROOT / "build" / "release" / "apps" / "sluice" / "sluice"
READY_S = 960.0  # `sluice up` gives up before and says why
STOP_S = 60.0
LOOK_S = 0.25


class DeploymentError(Exception):
    """What did not come up or go down, and the end of the log."""


@dataclass(frozen=True)
class Topology:
    """The parts of a topology file that the demo needs to know."""

    file: Path
    arena: str
    engines: dict[str, Engine]
    logs: Path
    proxy: Engine | None = None  # the endpoint in front of them

    @staticmethod
    def read(file: Path) -> "Topology":
        content: dict[str, Any] = tomllib.loads(file.read_text())
        engines = {
            entry["name"]: Engine(entry["name"], f"http://127.0.0.1:{entry['port']}")
            for entry in content["engine"]
        }
        proxy = None
        if "proxy" in content:
            proxy = Engine("proxy", f"http://127.0.0.1:{content['proxy']['port']}")
        return Topology(file, content["arena"]["name"], engines, ROOT / content["log-dir"], proxy)


class Deployment:
    """A running topology; a context manager that stops it."""

    def __init__(self, topology: Topology, log: Path) -> None:
        self.topology = topology
        self._waiting = self._servers()  # that have not answered yet
        self._running = Running(
            [SLUICE, "up", topology.file],
            log,
            self._all_answer,
            start_s=READY_S,
            stop_s=STOP_S,
            look_s=LOOK_S,
            folder=ROOT,
        )
        log.parent.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        for server in self._servers():
            refuse_taken_port(server)
        try:
            self._running.__enter__()
        except NotReady as error:
            waiting = ", ".join(server.name for server in self._waiting)
            raise DeploymentError(f"{error}\nwithout an answer: {waiting}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running.__exit__(kind, error, trace)
        code = self._running.exit_code
        if kind is None and code != 0:
            said = self._running.said()
            raise DeploymentError(f"`sluice up` ended with exit code {code}\n{said}")

    def engine(self, name: str) -> Engine:
        """One engine, asked directly; behind a proxy it wants the deployment's token."""
        engine = self.topology.engines[name]
        if self.topology.proxy is None:
            return engine
        return replace(engine, token=(self.topology.logs / "engine.token").read_text())

    def processes(self) -> dict[int, str]:
        """The first process of each engine: children of `sluice up`, told apart by their port."""
        ports = {
            one.address.rpartition(":")[2]: name for name, one in self.topology.engines.items()
        }
        found: dict[int, str] = {}
        for task in Path(f"/proc/{self._running.pid}/task").iterdir():
            for pid in map(int, (task / "children").read_text().split()):
                words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                if "--port" in words and (port := words[words.index("--port") + 1]) in ports:
                    found[pid] = ports[port]
        return found

    def _all_answer(self) -> bool:
        self._waiting = [server for server in self._waiting if not answers(server)]
        return not self._waiting

    def _servers(self) -> list[Engine]:
        engines = list(self.topology.engines.values())
        return engines if self.topology.proxy is None else [*engines, self.topology.proxy]


def answers(server: Engine) -> bool:
    path = "/readyz?all" if server.name == "proxy" else "/health"
    try:
        with urllib.request.urlopen(server.address + path, timeout=2) as reply:
            return int(reply.status) == 200
    except OSError:
        return False


def refuse_taken_port(engine: Engine) -> None:
    """Somebody else's engine on our port would answer in our place."""
    host, port = engine.address.removeprefix("http://").split(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError as error:
            raise DeploymentError(f"port {port} of {engine.name} is taken: {error}") from error
