"""The numbers of the Python package and of the vLLM connector, each in a process of its own."""

import os
import statistics
import sys
from pathlib import Path

from daemon import Daemon
from plan import Plan
from programs import run
from results import Results, pair_ratio

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NS_PER_MS = 1e6


def measure_python(build: Path, plan: Plan, results: Results) -> None:
    with Daemon(build, "256MiB") as daemon:
        series = run(
            [
                *(sys.executable, HERE / "python_side.py", daemon.directory),
                *(str(plan.python_gets), str(plan.python_puts)),
            ],
            _environment(build),
        )
    gets = series.pop("py_get_ns")
    results.put("py_get_us_p50", statistics.median(gets) / 1e3, {"py_get_ns": gets})
    results.put("py_put_ratio_7m", pair_ratio(series["torch_copy_ns"], series["py_put_ns"]), series)


def measure_engine(build: Path, plan: Plan, results: Results) -> None:
    with Daemon(build, "512MiB") as daemon:
        series = run(
            [
                *(sys.executable, HERE / "engine_side.py", daemon.directory),
                *(_model(), str(plan.engine_samples)),
            ],
            {
                **_environment(build),
                "VLLM_CPU_KVCACHE_SPACE": "1",
                "HF_HUB_OFFLINE": "1",
                "VLLM_LOGGING_LEVEL": "WARNING",
            },
        )
    for what in ("save", "load"):
        ours, disk = series[f"sluice_{what}_ns"], series[f"disk_{what}_ns"]
        results.put(
            f"engine_{what}_ms_7m",
            statistics.median(ours) / NS_PER_MS,
            {f"sluice_{what}_ns": ours, f"disk_{what}_ns": disk},
            note=f"vLLM's disk connector {statistics.median(disk) / NS_PER_MS:.1f}",
        )


def _environment(build: Path) -> dict[str, str]:
    path = os.pathsep.join(map(str, (build / "python", ROOT / "demo" / "support")))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def _model() -> str:
    """The demo's model, made when it is missing. No weights are loaded here: only its
    configuration is read.
    """
    folder = ROOT / "build" / "demo" / "models" / "qwen2_5_vl"
    run([sys.executable, ROOT / "demo" / "models.py", "qwen2_5_vl", folder])
    return str(folder)
