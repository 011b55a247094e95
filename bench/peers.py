"""Other systems on the same machine, in turns with Sluice: Mooncake Store over TCP, and files.

Each runs in processes and an environment of its own, from the interpreter of this one.
"""

import contextlib
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from daemon import Daemon
from native import Native
from plan import BYTES_16M, Plan
from programs import LineProcess, Series
from results import Results, pair_ratio

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
import mooncake_master
from running import free_ports

HERE = Path(__file__).resolve().parent
FIRST_PUT = 1000  # numbers below belong to the objects that are read


def measure(build: Path, plan: Plan, native: Native, results: Results, folder: Path) -> None:
    """Puts in turns, then gets in turns, by new reader processes."""
    with (
        Daemon(build, "1GiB" if plan.peer_samples > 8 else "512MiB") as daemon,
        mooncake_client(folder) as store,
        LineProcess(
            [sys.executable, HERE / "safetensors_side.py", str(BYTES_16M)],
            folder / "safetensors.log",
            # Files go where this machine has its temporary ones.
            {**mooncake_master.own_environment(folder), "TMPDIR": tempfile.gettempdir()},
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


@contextlib.contextmanager
def mooncake_client(folder: Path) -> Iterator[LineProcess]:
    """A master, an owner with the segment, and a client that takes lines."""
    log = folder / "mooncake.log"
    owner_port, client_port = free_ports(2)
    with mooncake_master.master(folder) as master:

        def side(role: str, port: int) -> LineProcess:
            where = (master.metadata, master.address, f"127.0.0.1:{port}")
            program = HERE / "mooncake_side.py"
            command: list[str | Path] = [sys.executable, program, role, *where, str(BYTES_16M)]
            return LineProcess(command, log, mooncake_master.own_environment(folder))

        with side("owner", owner_port), side("client", client_port) as client:
            yield client
