"""Other systems on the same machine, in turns with Sluice: Mooncake Store over TCP, and files.

Each runs in processes and an environment of its own, from the interpreter of this one.
"""

import contextlib
import os
import socket
import statistics
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from daemon import Daemon
from native import Native
from plan import BYTES_16M, Plan
from programs import LineProcess, Series
from results import Results, pair_ratio

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
from running import Running, free_ports

HERE = Path(__file__).resolve().parent
START_S = 60.0
STOP_S = 10.0
FIRST_PUT = 1000  # numbers below belong to the objects that are read


def measure(build: Path, plan: Plan, native: Native, results: Results, folder: Path) -> None:
    """Puts in turns, then gets in turns, by new reader processes."""
    with (
        Daemon(build, "1GiB" if plan.peer_samples > 8 else "512MiB") as daemon,
        mooncake(folder) as store,
        LineProcess(
            [sys.executable, HERE / "safetensors_side.py", str(BYTES_16M)],
            folder / "safetensors.log",
            own_environment(folder),
        ) as files,
    ):
        log = folder / "serve.log"
        serve = native.serve_command(daemon)
        puts: Series = {"sluice_put_ns": [], "mooncake_put_ns": [], "safetensors_put_ns": []}
        with LineProcess(serve, log) as sluice:
            sides = list(zip(puts, (sluice, store, files), strict=True))
            for number in range(plan.peer_samples + 1):
                for turn in range(3):
                    name, side = sides[(number + turn) % 3]
                    took = side.ask(f"put {number}")
                    if number > 0:  # the first one of each warms it up
                        puts[name].append(took)
        gets: Series = {"sluice_get_ns": [], "sluice_touch_ns": [], "mooncake_get_ns": []}
        for _ in range(plan.peer_readers):
            with LineProcess(serve, log) as reader:
                for number in range(0, plan.peer_samples, 2):
                    gets["sluice_get_ns"].append(reader.ask(f"get {number}"))
                    gets["mooncake_get_ns"].append(store.ask(f"get {number}"))
                    gets["sluice_touch_ns"].append(reader.ask(f"touch {number + 1}"))
    _report(results, puts, gets)


def _report(results: Results, puts: Series, gets: Series) -> None:
    def pair(name: str, of: Series, peer: str, ours: str) -> None:
        figure = pair_ratio(of[peer], of[ours])
        rates = [16 / (statistics.median(of[side]) / 1e9) for side in (ours, peer)]
        note = f"{rates[0]:.0f} to {rates[1]:.0f} MiB/s"
        results.put(name, figure, {ours: of[ours], peer: of[peer]}, note)

    pair("put_vs_mooncake_16m", puts, "mooncake_put_ns", "sluice_put_ns")
    pair("put_vs_safetensors_16m", puts, "safetensors_put_ns", "sluice_put_ns")
    pair("get_vs_mooncake_16m", gets, "mooncake_get_ns", "sluice_get_ns")
    pair("get_touch_vs_mooncake_16m", gets, "mooncake_get_ns", "sluice_touch_ns")


def own_environment(folder: Path) -> dict[str, str]:
    """What a peer needs, and nothing of the environment that the benchmark runs in."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {"PATH": os.defpath, **kept, "HOME": str(folder)}


@contextlib.contextmanager
def mooncake(folder: Path) -> Iterator[LineProcess]:
    """A master, an owner with the segment, and a client that takes lines."""
    rpc, metrics, http, owner_port, client_port = free_ports(5)
    url, master = f"http://127.0.0.1:{http}/metadata", f"127.0.0.1:{rpc}"
    log = folder / "mooncake.log"
    environment = own_environment(folder)
    running = Running(
        [
            Path(sys.executable).with_name("mooncake_master"),
            "--enable_http_metadata_server=true",
            "--http_metadata_server_host=127.0.0.1",
            f"--http_metadata_server_port={http}",
            "--rpc_address=127.0.0.1",
            f"--rpc_port={rpc}",
            "--metrics_host=127.0.0.1",
            f"--metrics_port={metrics}",
        ],
        log,
        lambda: _accepts(rpc) and _answers(url),
        start_s=START_S,
        stop_s=STOP_S,
        environment=environment,
        folder=folder,
    )

    def side(role: str, port: int) -> LineProcess:
        where = (url, master, f"127.0.0.1:{port}")
        program = HERE / "mooncake_side.py"
        command: list[str | Path] = [sys.executable, program, role, *where, str(BYTES_16M)]
        return LineProcess(command, log, environment)

    with running, side("owner", owner_port), side("client", client_port) as client:
        yield client


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _answers(url: str) -> bool:
    """A key that is not there is an answer too."""
    try:
        urllib.request.urlopen(f"{url}?key=none", timeout=1.0).close()
    except urllib.error.HTTPError as error:
        return error.code == 404
    except OSError:
        return False
    return True
