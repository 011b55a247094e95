"""`make bench` at small counts: every number that needs no whole engine can still be measured."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SLUICE_BUILD", ROOT / "build" / "release"))
RUN_S = 240.0
NAMES = {
    *("put_memcpy_ratio_16m", "put_checksum_ratio_16m", "first_pass_ratio"),
    *("get_us_p50", "py_get_us_p50", "verified_get_memcpy_ratio_16m"),
    *("lookup_ns_per_key", "lookup_scaling", "small_put_us_p50", "small_put_wait_us_p50"),
    *("py_put_ratio_7m", "put_vs_mooncake_16m", "get_vs_mooncake_16m"),
    *("get_touch_vs_mooncake_16m", "put_vs_safetensors_16m", "overhead_bytes_per_object"),
    *("arena_utilisation", "idle_cpu_percent", "clients_scaling"),
}
SERVING = {
    *("proxy_pd_vs_router_small", "proxy_pd_vs_router_200k", "proxy_epd_vs_router_pd_200k"),
    *("proxy_stream_events_per_s_ratio", "proxy_added_ms_p99", "proxy_kib_per_idle_connection"),
    *("handoff_memcpy_ratio", "handoff_overlap_sim"),
}
# A step with a transfer less the same step without: a busy machine can make it negative.
DIFFERENCES = {"engine_save_ms_7m", "engine_load_ms_7m", "handoff_overlap_sim"}
STEPS = DIFFERENCES - SERVING
# The same of latencies and of memory, at so small a count.
SMALL = {"proxy_added_ms_p99", "proxy_kib_per_idle_connection"}


def bench(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, ROOT / "bench" / "run.py", "--build-dir", BUILD, "--out", out),
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.peer
def test_a_quick_run_measures_every_number_and_keeps_every_sample(tmp_path: Path) -> None:
    arenas = set(Path("/dev/shm").glob("sluice-bench-*"))
    done = bench(tmp_path, "--quick")
    assert done.returncode == 0, done.stderr
    for file, names in (("store", NAMES | STEPS), ("serving", SERVING)):
        figures = json.loads((tmp_path / f"{file}.json").read_text())
        raw = json.loads((tmp_path / f"{file}-raw.json").read_text())
        assert set(figures) == names
        for name, figure in figures.items():
            assert math.isfinite(figure), name
            assert figure > 0 or name in DIFFERENCES | SMALL, name
            assert raw["samples"][name], name
            assert all(raw["samples"][name].values()), name
            assert name in done.stdout
        assert raw["machine"]["processors"] == os.cpu_count()
    assert set(Path("/dev/shm").glob("sluice-bench-*")) <= arenas, "an arena was left behind"


def test_what_cannot_be_measured_is_said_and_ends_with_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, ROOT / "bench" / "run.py", "--quick", "--only", "utilisation"),
            *("--build-dir", tmp_path, "--out", tmp_path / "out"),
        ],
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 1
    assert "utilisation could not be measured" in done.stderr
    assert json.loads((tmp_path / "out" / "store.json").read_text()) == {}
