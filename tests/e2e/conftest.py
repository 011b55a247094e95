"""Paths and shared engines of the tests that run real vLLM engines."""

import os
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SLUICE_BUILD", ROOT / "build" / "release"))
sys.path[:0] = [
    str(BUILD / "python"),
    *(str(ROOT / folder) for folder in ("demo", "tests/vllm", "tests/proxy")),
]
runpy.run_path(str(ROOT / "demo" / "support" / "sitecustomize.py"))  # torchvision's operators

if TYPE_CHECKING:
    from deployment_fixture import Deployment
    from stage import Stage


@pytest.fixture(scope="session")
def model() -> Path:
    """The folder of the demo's Qwen2.5-VL."""
    import models

    folder = ROOT / "build" / "demo" / "models" / "qwen2_5_vl"
    models.ensure_model("qwen2_5_vl", folder)
    return folder


@pytest.fixture(scope="session")
def stage() -> Iterator["Stage"]:
    from stage import Stage

    with Stage() as only:
        yield only


@pytest.fixture
def deployment(model: Path, stage: "Stage") -> "Deployment":
    """An encoder, a prefill+decode engine with a vision tower, and one without; shared by tests."""
    from arena_process import ArenaProcess
    from counts import LOGS
    from deployment_fixture import Deployment

    return stage.show(
        "deployment", lambda: Deployment(model, ArenaProcess("256MiB"), LOGS / "engines")
    )
