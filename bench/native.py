"""The numbers that C++ programs measure, each group against a daemon of its own."""

import statistics
import time
from pathlib import Path

from daemon import Daemon
from plan import BYTES_16M, Plan
from programs import LineProcess, Series, merged, run
from results import Results, pair_ratio

CLIENTS_IDLE = 4
NS_PER_US = 1e3


class Native:
    """Each method measures one group. Raises RuntimeError when a program cannot measure."""

    def __init__(self, build: Path, plan: Plan, results: Results) -> None:
        self._build = build
        self._plan = plan
        self._results = results

    def copies(self) -> None:
        plan = self._plan
        fill = {"objects": plan.copy_objects, "bytes": BYTES_16M}
        with Daemon(self._build, plan.copy_arena) as daemon:
            self._program(daemon, "copy", "fill", **fill)
            verified = merged(
                [
                    self._program(daemon, "copy", "verified", seed=seed, **fill)
                    for seed in range(plan.fresh_clients)
                ]
            )
            reads = [
                self._program(daemon, "copy", "read", count=plan.later_passes, **fill)
                for _ in range(plan.fresh_clients)
            ]
            puts = self._program(daemon, "copy", "put", bytes=BYTES_16M, count=plan.copy_samples)
            writes = [
                self._program(daemon, "copy", "write", seed=seed, count=plan.later_passes, **fill)
                for seed in range(plan.fresh_clients)
            ]
        put = self._results.put
        put(
            "put_memcpy_ratio_16m",
            pair_ratio(puts["memcpy_ns"], puts["put_plain_ns"]),
            {"memcpy_ns": puts["memcpy_ns"], "put_plain_ns": puts["put_plain_ns"]},
        )
        put(
            "put_checksum_ratio_16m",
            pair_ratio(puts["memcpy_ns"], puts["put_ns"]),
            {"memcpy_ns": puts["memcpy_ns"], "put_ns": puts["put_ns"]},
        )
        put(
            "verified_get_memcpy_ratio_16m",
            pair_ratio(verified["memcpy_out_ns"], verified["verified_get_ns"]),
            verified,
        )
        read = [_first_pass(one["read_pass_ns"]) for one in reads]
        write = [_first_pass(one["write_pass_ns"]) for one in writes]
        both = (statistics.median(read), statistics.median(write))
        put(
            "first_pass_ratio",
            min(both),
            {"read_ratio": read, "write_ratio": write, **merged(reads), **merged(writes)},
            note=f"the lower of reading {both[0]:.2f} and putting {both[1]:.2f}",
        )

    def gets(self) -> None:
        plan = self._plan
        with Daemon(self._build, "128MiB") as daemon:
            self._program(daemon, "get", "fill", objects=8, bytes=7 << 20)
            latency = self._program(daemon, "get", "latency", count=plan.gets)
            rounds = self._program(daemon, "get", "scaling", objects=8, count=plan.get_rounds)
        self._results.put("get_us_p50", statistics.median(latency["get_ns"]) / NS_PER_US, latency)
        self._results.put(
            "clients_scaling", pair_ratio(rounds["two_readers"], rounds["one_reader"]), rounds
        )

    def small_puts(self) -> None:
        for command, series, name in (
            ("poll", "small_put_ns", "small_put_us_p50"),
            ("wait", "small_put_wait_ns", "small_put_wait_us_p50"),
        ):
            with Daemon(self._build, "64MiB") as daemon:
                samples = self._program(
                    daemon, "small_put", command, bytes=4096, count=self._plan.small_puts
                )
            self._results.put(name, statistics.median(samples[series]) / NS_PER_US, samples)

    def handoffs(self) -> None:
        plan = self._plan
        options = {"bytes": plan.handoff_bytes, "count": plan.handoff_samples}
        with Daemon(self._build, "512MiB") as daemon:
            copied = self._program(daemon, "handoff", "copy", **options)
            beside = self._program(daemon, "handoff", "overlap", **options)
        ratio = pair_ratio(copied["two_memcpys_ns"], copied["handoff_ns"])
        self._results.put("handoff_memcpy_ratio", ratio, copied)
        triples = zip(
            beside["handoff_ns"], beside["compute_ns"], beside["overlapped_ns"], strict=True
        )
        hidden = [1 - (both - compute) / handoff for handoff, compute, both in triples]
        self._results.put("handoff_overlap_sim", statistics.median(hidden), beside)

    def lookups(self) -> None:
        """The three arenas stand side by side, so that rounds can take turns."""
        plan = self._plan
        small, middle, large = plan.lookup_objects
        with self._filled(small) as one, self._filled(middle) as two, self._filled(large) as three:
            daemons = {small: one, middle: two, large: three}
            for objects, daemon in daemons.items():
                self._program(daemon, "lookup", "fill", objects=objects)
            overhead = self._program(two, "lookup", "overhead", objects=middle)
            samples: Series = {}
            medians: dict[int, list[float]] = {objects: [] for objects in daemons}
            for seed in range(plan.lookup_rounds):
                for objects, daemon in daemons.items():
                    got = self._program(
                        daemon,
                        "lookup",
                        "measure",
                        objects=objects,
                        count=plan.lookup_batches,
                        seed=seed,
                    )["lookup_ns_per_key"]
                    samples.setdefault(f"ns_per_key_{objects}", []).extend(got)
                    medians[objects].append(statistics.median(got))
        self._results.put(
            "lookup_ns_per_key",
            statistics.median(samples[f"ns_per_key_{middle}"]),
            {f"ns_per_key_{middle}": samples[f"ns_per_key_{middle}"]},
        )
        self._results.put("lookup_scaling", pair_ratio(medians[large], medians[small]), samples)
        index, records = overhead["index_bytes"][0], overhead["record_bytes"][0]
        self._results.put(
            "overhead_bytes_per_object",
            (index + records) / middle,
            overhead,
            note=f"whole control segment {overhead['control_segment_bytes'][0] / middle:.0f}",
        )

    def utilisation(self) -> None:
        plan = self._plan
        with Daemon(self._build, plan.utilisation_arena) as daemon:
            samples = self._program(daemon, "utilisation", "churn", count=plan.utilisation_rounds)
        self._results.put("arena_utilisation", statistics.median(samples["payload_share"]), samples)

    def idle(self, log: Path) -> None:
        with Daemon(self._build, "256MiB") as daemon:
            command = self._command(daemon, "attached", "hold", objects=CLIENTS_IDLE)
            with LineProcess(command, log):
                time.sleep(1.0)  # what attaching costs is over
                before, start = daemon.cpu_seconds(), time.monotonic()
                time.sleep(self._plan.idle_s)
                used, took = daemon.cpu_seconds() - before, time.monotonic() - start
        self._results.put(
            "idle_cpu_percent", 100 * used / took, {"cpu_s": [used], "seconds": [took]}
        )

    def serve_command(self, daemon: Daemon) -> list[str | Path]:
        """The program that takes turns with other systems."""
        return self._command(daemon, "serve", "lines", bytes=BYTES_16M)

    def _filled(self, objects: int) -> Daemon:
        # A page for each object, and room for grants ahead.
        size = f"{max(objects * 4 // 1000 * 9 // 8, 32) + 64}MiB"
        return Daemon(self._build, size, "--objects-max", str(objects), "--touch", "false")

    def _command(
        self, daemon: Daemon, program: str, command: str, **options: int
    ) -> list[str | Path]:
        words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
        path = self._build / "bench" / f"bench_{program}"
        return [path, command, "--directory", daemon.directory, *words]

    def _program(self, daemon: Daemon, program: str, command: str, **options: int) -> Series:
        return run(self._command(daemon, program, command, **options))


def _first_pass(passes: list[float]) -> float:
    return statistics.median(passes[1:]) / passes[0]
