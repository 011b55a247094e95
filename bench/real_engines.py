"""Real vLLM engines of the benchmarks: their models, and the flags that all of them share.

Models have random weights and the shapes that matter here (demo/models.py makes them):

wide   features of a real model's size at little cost of computing: rows of 3,584 values with three
       DeepStack levels, 7.3 MB for an image of 512 x 512, behind a narrow tower of three layers;
       its language model has three narrow layers
deep   KV of a real model's size at little cost of computing: 28 layers, 28 KB a token

A processor computes what an accelerator computes some hundred times slower, and moves bytes nearly
as fast: with little to compute, the shares of the two are closer to those of an accelerator.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from deployment import Deployment, EngineSpec
from programs import run

ROOT = Path(__file__).resolve().parent.parent
MODELS: dict[str, tuple[str, ...]] = {
    "wide": (
        *("qwen3_vl", "--width", "3584", "--layers", "3", "--heads", "2"),
        *("--inner-width", "128", "--vision-layers", "3", "--vision-width", "64"),
    ),
    "deep": ("qwen2_5_vl", "--layers", "28", "--kv-heads", "4"),
}
LARGE_PX = 512  # a side of the image whose feature in `wide` has 256 rows, 7.3 MB
SMALL_PX = 256  # 64 rows, 1.8 MB
FLAGS = (
    *("--served-model-name", "m", "--dtype", "bfloat16", "--enforce-eager"),
    *("--max-model-len", "8192", "--no-enable-prefix-caching"),
)


def model(name: str) -> Path:
    """The folder of a model of MODELS, which is made when it is missing."""
    kind, *sizes = MODELS[name]
    folder = ROOT / "build" / "bench" / "models" / name
    path = os.pathsep.join([str(ROOT / "demo" / "support"), os.environ.get("PYTHONPATH", "")])
    command: list[str | Path] = [sys.executable, ROOT / "demo" / "models.py", kind, folder, *sizes]
    run(command, {**os.environ, "PYTHONPATH": path})
    return folder


def deployment(
    build: Path,
    folder: Path,
    model: Path,
    engines: Sequence[EngineSpec],
    *,
    running_max: int = 8,
    proxy: bool = False,
) -> Deployment:
    """`running_max`: requests that an engine computes at a time. One compute thread an engine."""
    folder.mkdir(parents=True)
    path = os.pathsep.join(map(str, (build / "python", ROOT / "demo" / "support")))
    environment = {
        "PYTHONPATH": path,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_SERVER_DEV_MODE": "1",
    }
    return Deployment(
        build,
        folder,
        model,
        list(engines),
        args=(*FLAGS, "--max-num-seqs", str(running_max)),
        env=environment,
        python=sys.executable,
        proxy=proxy,
    )


def by_disk(role: str, folder: Path) -> tuple[str, ...]:
    """vLLM's own connector, which writes features to files; `role`: ec_producer, ec_consumer."""
    transfer = {
        "ec_connector": "ECExampleConnector",
        "ec_role": role,
        "ec_connector_extra_config": {"shared_storage_path": str(folder)},
    }
    return ("--ec-transfer-config", json.dumps(transfer))
