"""Real vLLM CPU engines for the tests: starts one, waits until it answers, kills or stops it.

Failure: EngineFailed with the end of the log when an engine does not come up, or does not stop.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from engines import Engine
from shared_memory import engine_files, group_members

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SLUICE_BUILD", ROOT / "build" / "release"))
START_S = 300.0
STOP_S = 60.0
Role = Literal["ec_producer", "ec_consumer", "ec_both"]


class EngineFailed(AssertionError):
    """What did not happen, and the end of the engine's log."""


@dataclass
class EngineOptions:
    """What one engine is started with."""

    name: str
    model: Path
    role: Role | None = None
    directory: str = ""  # of the arena
    extra: dict[str, Any] = field(default_factory=dict)
    flags: Sequence[str] = ()
    images: int = 4  # 0: the engine loads no vision tower
    environment: dict[str, str] = field(default_factory=dict)


class EngineProcess:
    """One API server with its engine. Start several before waiting for any of them."""

    def __init__(self, options: EngineOptions, log_folder: Path) -> None:
        self.options = options
        self.port = free_port()
        self.http = Engine(options.name, f"http://127.0.0.1:{self.port}", model="m")
        log_folder.mkdir(parents=True, exist_ok=True)
        self._log = log_folder / f"{options.name}.log"
        self._log.unlink(missing_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                start_new_session=True,  # so that all of its processes can be ended together
            )

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while not self.healthy():
            if self._process is None or self._process.poll() is not None:
                raise EngineFailed(f"{self.options.name} ended while starting\n{self.tail()}")
            if time.monotonic() > deadline:
                raise EngineFailed(f"{self.options.name} is not up\n{self.tail()}")
            time.sleep(0.2)

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(self.http.address + "/health", timeout=10) as reply:
                return int(reply.status) == 200
        except OSError:
            return False

    def metrics(self) -> dict[str, float]:
        """The connector's Prometheus counters, by name."""
        with urllib.request.urlopen(self.http.address + "/metrics", timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        found = {}
        for line in lines:
            if line.startswith("sluice_ec_") and "_created" not in line:
                name, _, value = line.rpartition(" ")
                found[name.split("{")[0].removesuffix("_total")] = float(value)
        return found

    def kill(self) -> None:
        """SIGKILL to every process of the engine; its files in shared memory go with it."""
        if self._process is None:
            return
        files = engine_files(group_members(self._process.pid))
        self._signal(signal.SIGKILL)
        self._process.wait()
        for file in files:
            file.unlink(missing_ok=True)

    def stop(self) -> None:
        """SIGTERM to the server; what is still there after a while is killed and is a failure."""
        if self._process is None or self._process.poll() is not None:
            self._signal(signal.SIGKILL)
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise EngineFailed(f"{self.options.name} does not stop\n{self.tail()}") from None
        finally:
            self._signal(signal.SIGKILL)

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def tail(self) -> str:
        return "\n".join(f"  | {line}" for line in self.log().splitlines()[-40:])

    def _signal(self, number: signal.Signals) -> None:
        """To the process group that this object started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _command(self) -> list[str]:
        options = self.options
        command = [
            *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", str(options.model), "--served-model-name", "m"),
            *("--host", "127.0.0.1", "--port", str(self.port)),
            *("--dtype", "bfloat16", "--enforce-eager", "--no-enable-prefix-caching"),
            *("--max-model-len", "4096", "--max-num-seqs", "8"),
            *("--limit-mm-per-prompt", json.dumps({"image": options.images, "video": 0})),
        ]
        if options.role is not None:
            transfer = {
                "ec_connector": "SluiceECConnector",
                "ec_connector_module_path": "sluice.vllm",
                "ec_role": options.role,
                "engine_id": options.name,
                "ec_connector_extra_config": {"directory": options.directory, **options.extra},
            }
            command += ["--ec-transfer-config", json.dumps(transfer)]
        return [*command, *options.flags]

    def _environment(self) -> dict[str, str]:
        path = [str(ROOT / "demo" / "support"), str(BUILD / "python")]
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
            "VLLM_SERVER_DEV_MODE": "1",
            **self.options.environment,
        }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
