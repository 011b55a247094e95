"""Paths and shared engines of the tests that run real vLLM engines."""

import os
import runpy
import sys
import tempfile
import time
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

from shared_memory import Watch  # noqa: E402 - beside this file

if TYPE_CHECKING:
    from deployment_fixture import Deployment
    from endpoint import Endpoint
    from stage import Stage
    from two_sizes import TwoSizes

LEFT_S = 20.0  # a process that ends may take as long to tidy up
# The fixtures that show a group of engines; tests of one group run after each other.
GROUPS = ("deployment", "endpoint", "cached", "sizes", "pair")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def group(item: pytest.Item) -> int:
        used = [place for place, name in enumerate(GROUPS) if name in fixtures_of(item)]
        return min(used, default=-1)

    items.sort(key=group)


def fixtures_of(item: pytest.Item) -> list[str]:
    """None of a test of another folder."""
    own = Path(__file__).parent in item.path.parents
    return list(getattr(item, "fixturenames", [])) if own else []


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Fails the last test when this session's engines and daemons leave anything behind."""
    from engine_process import scratch_prefix

    with Watch() as watch:
        yield
    deadline = time.monotonic() + LEFT_S
    while watch.left() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert watch.left() == []
    assert list(Path(tempfile.gettempdir()).glob(f"{scratch_prefix()}*")) == []


@pytest.fixture(scope="session")
def model() -> Path:
    """The folder of the demo's Qwen2.5-VL."""
    import models

    folder = ROOT / "build" / "demo" / "models" / "qwen2_5_vl"
    models.ensure_model("qwen2_5_vl", folder)
    return folder


@pytest.fixture(scope="session")
def deepstack_model() -> Path:
    """The folder of the demo's Qwen3-VL."""
    import models

    folder = ROOT / "build" / "demo" / "models" / "qwen3_vl"
    models.ensure_model("qwen3_vl", folder)
    return folder


@pytest.fixture(scope="session")
def stage(_nothing_is_left: None) -> Iterator["Stage"]:
    from stage import Stage

    with Stage() as only:
        yield only


@pytest.fixture
def deployment(model: Path, stage: "Stage") -> "Deployment":
    """An encoder, a prefill+decode engine with a vision tower, and one without; shared by tests."""
    from counts import LOGS
    from deployment_fixture import Deployment

    return stage.show("deployment", lambda: Deployment(model, LOGS / "engines"))


@pytest.fixture
def endpoint(model: Path, stage: "Stage") -> "Endpoint":
    """Encoder, prefill and decode behind the proxy, without prefix caches, and the measure."""
    from counts import LOGS
    from endpoint import Endpoint

    return stage.show("endpoint", lambda: Endpoint(model, LOGS / "engines", load_timeout_s=30.0))


@pytest.fixture
def sizes(model: Path, stage: "Stage") -> "TwoSizes":
    """Engines of tensor-parallel size 1 and 2, whose prefix caches are empty."""
    from two_sizes import TwoSizes

    shown = stage.show("sizes", lambda: TwoSizes(model))
    shown.forget()
    return shown
