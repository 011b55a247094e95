"""Paths and fixtures of the connector's tests: the built package, a model, a real daemon."""

import os
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SLUICE_BUILD", ROOT / "build" / "release"))
sys.path[:0] = [str(BUILD / "python"), str(ROOT / "demo")]
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
runpy.run_path(str(ROOT / "demo" / "support" / "sitecustomize.py"))  # torchvision's operators

if TYPE_CHECKING:
    from arena_process import ArenaProcess
    from kv_world import KVWorld
    from sluice import _core
    from world import World


@pytest.fixture(scope="session")
def model() -> Path:
    """The folder of the demo's Qwen2.5-VL."""
    import models

    folder = ROOT / "build" / "demo" / "models" / "qwen2_5_vl"
    models.ensure_model("qwen2_5_vl", folder)
    return folder


@pytest.fixture
def arena() -> Iterator["ArenaProcess"]:
    from arena_process import ArenaProcess

    with ArenaProcess() as process:
        yield process


@pytest.fixture
def engine(model: Path, arena: "ArenaProcess") -> Iterator[Callable[..., "World"]]:
    """Makes engines on the test's arena; they are closed when the test ends."""
    from world import World

    made: list[World] = []

    def make(role: Any, **options: Any) -> World:
        made.append(World(model, arena.directory, role, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def kv(model: Path, arena: "ArenaProcess") -> Iterator[Callable[..., "KVWorld"]]:
    """Makes engines that hand KV off through the test's arena; they are closed at its end."""
    from kv_world import KVWorld

    made: list[KVWorld] = []

    def make(role: Any, **options: Any) -> KVWorld:
        made.append(KVWorld(model, arena.directory, role, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def client(arena: "ArenaProcess") -> Iterator["_core.Client"]:
    """Another process of the test's arena, as far as tests need one."""
    from sluice import _core

    with _core.Client.attach(directory=arena.directory, label="test") as attached:
        yield attached
