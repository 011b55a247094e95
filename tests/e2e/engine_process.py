"""Real vLLM CPU engines for the tests: starts one, waits until it answers, kills or stops it.

Failure: EngineFailed with the end of the log when an engine does not come up, or does not stop.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from engines import Engine
from shared_memory import engine_files, group_members

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SLUICE_BUILD", ROOT / "build" / "release"))
START_S = 300.0
STOP_S = 60.0
SLICE_S = 0.003
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
        self._scratch = ""  # what the engine keeps in files besides its log
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        self._scratch = tempfile.mkdtemp(prefix=scratch_prefix())
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                # So that all of its processes can be ended together. Not a session of its own: the
                # kernel schedules sessions as groups (autogroup), and lets a daemon or an engine
                # that is woken wait for a second behind the others.
                process_group=0,
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
        """Every Prometheus sample by name, summed over its labels; counters without `_total`."""
        with urllib.request.urlopen(self.http.address + "/metrics", timeout=30) as reply:
            lines = reply.read().decode().splitlines()
        found: dict[str, float] = {}
        for line in lines:
            name, _, value = line.rpartition(" ")
            name = name.split("{")[0]
            if name and not name.startswith("#") and not name.endswith("_created"):
                name = name.removesuffix("_total")
                found[name] = found.get(name, 0.0) + float(value)
        return found

    def kv(self) -> dict[str, float]:
        """The KV connector's counts, by the names of docs/operating/kv-connector.md."""
        start = "sluice_kv_"
        counts = self.metrics().items()
        return {name.removeprefix(start): n for name, n in counts if name.startswith(start)}

    def blocks_in_use(self) -> float:
        """The share of its KV blocks that requests hold."""
        return self.metrics()["vllm:kv_cache_usage_perc"]

    def forget_prefixes(self) -> None:
        """Empties the engine's prefix cache; no request may be running."""
        request = urllib.request.Request(self.http.address + "/reset_prefix_cache", b"")
        with urllib.request.urlopen(request, timeout=30) as reply:
            assert reply.status == 200

    def kill(self) -> None:
        """SIGKILL to every process of the engine; what it kept elsewhere goes with it."""
        if self._process is not None:
            self.pause()  # so that nothing comes to be between the look and the end
            self._end(engine_files(group_members(self._process.pid)))

    def stop(self) -> None:
        """SIGTERM to the server; what is still there after a while is killed and is a failure."""
        process = self._process
        if process is None:
            return
        files = engine_files(group_members(process.pid))
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        while process.poll() is None or group_members(process.pid):
            if time.monotonic() > deadline:
                self.kill()
                raise EngineFailed(f"{self.options.name} does not stop\n{self.tail()}")
            time.sleep(0.05)
        self._end(files)  # vLLM's server kills a core that takes long, and leaves what that had

    def pause(self) -> None:
        """Stops every process of the engine where it is; resume() lets them go on."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def pause_core(self) -> None:
        """Stops the processes that compute, while the server goes on to take requests."""
        self._signal_core(signal.SIGSTOP)

    def resume_core(self) -> None:
        self._signal_core(signal.SIGCONT)

    def compute_until(
        self, condition: Callable[[], bool], what: str, seconds: float = 60.0
    ) -> None:
        """Lets stopped processes compute in slices shorter than any step of theirs, so that they
        are stopped again, whatever the machine, soon after the condition has come to hold."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"after {seconds} s still not: {what}"
            self.resume_core()
            time.sleep(SLICE_S)
            self.pause_core()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def tail(self) -> str:
        return "\n".join(f"  | {line}" for line in self.log().splitlines()[-40:])

    def _signal_core(self, number: signal.Signals) -> None:
        for pid in self._core():
            with contextlib.suppress(ProcessLookupError):  # it lived for a moment
                os.kill(pid, number)

    def _core(self) -> list[int]:
        """All processes but the server, which started them."""
        assert self._process is not None
        core = [pid for pid in group_members(self._process.pid) if pid != self._process.pid]
        assert core, f"{self.options.name} has no process that computes"
        return core

    def _end(self, files: set[Path]) -> None:
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
        for file in files:
            file.unlink(missing_ok=True)
        shutil.rmtree(self._scratch, ignore_errors=True)

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
            "VLLM_RPC_BASE_PATH": self._scratch,  # its sockets
            "TMPDIR": self._scratch,
            "TORCHINDUCTOR_CACHE_DIR": str(ROOT / "build" / "test" / "torchinductor"),
            **self.options.environment,
        }


def scratch_prefix() -> str:
    """How the folders begin that engines of this process keep sockets and other files in."""
    return f"sluice-engine-{os.getpid()}-"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
