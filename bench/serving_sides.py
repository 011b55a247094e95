"""The programs of the serving benchmark: scripted engines, our proxy, and vllm-router in its place.

Each is a context manager that has its program ready inside and ended outside. Raises
running.NotReady with what the program said when it does not start.
"""

import contextlib
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
from running import Running, free_ports

START_S = 60.0
STOP_S = 10.0
LOOK_S = 0.02
NS_PER_S = 1e9


@dataclass(frozen=True)
class Side:
    """A program that serves HTTP on `port`."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        """Processor time of all its threads so far, as the scheduler counted it."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) / NS_PER_S for task in tasks)

    def post(self, path: str, body: bytes) -> None:
        urllib.request.urlopen(f"{self.url}{path}", body, timeout=10.0).close()


@contextlib.contextmanager
def engine(build: Path, role: str, folder: Path) -> Iterator[Side]:
    """A stub that answers at once, and looks only at the ends of what it is sent."""
    program = build / "tests" / "proxy" / "stub_engine"
    (port,) = free_ports(1)
    command: list[str | Path] = [program, "--role", role, "--plain", "1", "--port", str(port)]
    with _running(command, port, "/health", folder / f"{role}.log") as side:
        yield side


@contextlib.contextmanager
def proxy(build: Path, folder: Path, engines: Mapping[str, Side]) -> Iterator[Side]:
    """`sluice-proxy` with one thread before these engines, by role."""
    program = build / "apps" / "sluice-proxy" / "sluice-proxy"
    (port,) = free_ports(1)
    instances = [
        word for role, side in engines.items() for word in ("--instance", f"{role}={side.url}")
    ]
    command: list[str | Path] = [
        program,
        "--port",
        str(port),
        "--threads",
        "1",
        "--arena",
        "off",
        *instances,
    ]
    command += ["--access-log", "false"]  # the router writes none either
    with _running(command, port, "/readyz", folder / f"proxy-{'-'.join(engines)}.log") as side:
        yield side


@contextlib.contextmanager
def router(folder: Path, prefill: Side, decode: Side) -> Iterator[Side]:
    """vllm-router with one worker thread in its prefill and decode role."""
    port, metrics = free_ports(2)
    command = [
        *(sys.executable, "-m", "vllm_router.launch_router"),
        *("--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics)),
        *("--vllm-pd-disaggregation", "--prefill", prefill.url, "--decode", decode.url),
        *("--policy", "round_robin", "--log-level", "warning"),
        *("--worker-startup-check-interval", "1", "--max-concurrent-requests", "1024"),
    ]
    environment = {"TOKIO_WORKER_THREADS": "1"}
    with _running(command, port, "/health", folder / "router.log", environment) as side:
        yield side


@contextlib.contextmanager
def _running(
    command: Sequence[str | Path],
    port: int,
    health: str,
    log: Path,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Side]:
    running = Running(
        command,
        log,
        lambda: _answers(port, health),
        start_s=START_S,
        stop_s=STOP_S,
        look_s=LOOK_S,
        environment={**os.environ, **(environment or {})},
    )
    with running:
        yield Side(port, running.pid)


def _answers(port: int, path: str) -> bool:
    try:
        url = f"http://127.0.0.1:{port}{path}"
        with urllib.request.urlopen(url, timeout=1.0) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
