"""The three arms of the serving report: what runs, how a request goes through it, what it moved.

colocated  one engine that does everything
disk       an encoder and a prefill+decode engine with vLLM's own disk connector, driven as its
           documented proxy does: the encoder is asked with the image, then the whole request goes
           on. The client does that here, so this arm pays for no proxy
sluice     an encoder, a prefill and a decode engine behind sluice-proxy, features and KV through
           the arena

Threads: ask() from any; the rest from one.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import real_engines
from deployment import Deployment, EngineSpec
from openai_client import Json, Streamed, post, stream
from real_engines import by_disk

RUNNING_MAX = 32


@dataclass(frozen=True)
class Moved:
    """Bytes since the start of the arm."""

    features_stored: float = 0.0
    features_loaded: float = 0.0
    kv: float = 0.0  # that a decode engine took over

    def since(self, before: "Moved") -> "Moved":
        return Moved(
            self.features_stored - before.features_stored,
            self.features_loaded - before.features_loaded,
            self.kv - before.kv,
        )


@dataclass(frozen=True)
class Arm:
    name: str
    engines: int
    description: str
    up: Deployment
    ask: Callable[[Json], Streamed]
    moved: Callable[[], Moved]


@dataclass(frozen=True)
class ArmPlan:
    """An arm that has not been started."""

    name: str
    engines: tuple[EngineSpec, ...]
    description: str
    proxy: bool = False


def plans(folder: Path) -> list[ArmPlan]:
    """`folder`: where the disk connector's files go; it exists."""
    return [
        ArmPlan("colocated", (EngineSpec("engine", "colocated"),), "1 engine that does everything"),
        ArmPlan(
            "disk",
            (
                EngineSpec("encoder", "colocated", by_disk("ec_producer", folder)),
                EngineSpec("prefill-decode", "colocated", by_disk("ec_consumer", folder)),
            ),
            "2 engines, encoder and prefill+decode; vLLM's disk connector with its flow",
        ),
        ArmPlan(
            "sluice",
            (
                EngineSpec("encoder", "encoder"),
                EngineSpec("prefill", "prefill"),
                EngineSpec("decode", "decode"),
            ),
            "3 engines, encoder (one image at a time), prefill and decode, behind sluice-proxy",
            proxy=True,
        ),
    ]


def deployment_of(plan: ArmPlan, build: Path, folder: Path) -> Deployment:
    return real_engines.deployment(
        build,
        folder / plan.name,
        real_engines.model("wide"),
        plan.engines,
        running_max=RUNNING_MAX,
        proxy=plan.proxy,
    )


def arm(plan: ArmPlan, up: Deployment, disk: Path) -> Arm:
    """The arm of a plan whose engines are up."""

    def alone(body: Json) -> Streamed:
        return stream(up.ports["engine"], body)

    def by_files(body: Json) -> Streamed:
        """The times count from the encoder's request on."""
        encoded_s = 0.0
        if images := _image_parts(body):
            message = [{"role": "user", "content": images}]
            encode = {"model": body["model"], "messages": message, "max_tokens": 1}
            encoded_s = _timed(lambda: post(up.ports["encoder"], encode))
        got = stream(up.ports["prefill-decode"], body)
        return replace(got, first_s=got.first_s + encoded_s, last_s=got.last_s + encoded_s)

    def by_proxy(body: Json) -> Streamed:
        return stream(up.ports["proxy"], body)

    ways: dict[str, tuple[Callable[[Json], Streamed], Callable[[], Moved]]] = {
        "colocated": (alone, Moved),
        "disk": (by_files, lambda: Moved(features_stored=_size_of(disk))),
        "sluice": (by_proxy, lambda: _counted(up.arena)),
    }
    ask, moved = ways[plan.name]
    return Arm(plan.name, len(plan.engines), plan.description, up, ask, moved)


def _timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _image_parts(body: Json) -> list[Json]:
    parts = body["messages"][-1]["content"]
    return [part for part in parts if part["type"] == "image_url"]


def _size_of(folder: Path) -> float:
    return float(sum(path.stat().st_size for path in folder.rglob("*.safetensors")))


def _counted(arena: str) -> Moved:
    """What the connectors of all engines have posted on their pages in the arena."""
    from sluice._core import Client

    sums: dict[str, float] = {}
    with Client.attach(directory=arena, label="bench report", timeout=10.0) as client:
        for entry in client.clients():
            if not entry["alive"] or not entry["board"].startswith("{"):
                continue
            for name, value in json.loads(entry["board"]).get("counters", {}).items():
                sums[name] = sums.get(name, 0.0) + value
    return Moved(
        features_stored=sums.get("save_bytes", 0.0),
        features_loaded=sums.get("load_bytes", 0.0),
        kv=sums.get("bytes_received", 0.0),
    )
