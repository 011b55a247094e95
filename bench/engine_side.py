"""What moving a 7 MB feature adds to an engine's step, with Sluice and with vLLM's disk connector.

    engine_side.py DIRECTORY MODEL SAMPLES

The step is the part of a model runner's step that knows of features, in vLLM's own code: the
connector's hooks around it (ECConnectorModelRunnerMixin), the save of a new encoder output, and the
gather of a feature into the step's embeddings. The same step without the transfer is measured
beside it, and the difference counts; so what a loaded feature costs at its first reading is in.
Connectors are those of a worker, on real configurations; their schedulers' word is written here.
"""

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from sluice import _core
from sluice.vllm import SluiceECConnector
from sluice.vllm.metadata import LoadSpec, SaveSpec, SluiceStepMetadata
from vllm.config import VllmConfig
from vllm.distributed.ec_transfer import ec_transfer_state
from vllm.distributed.ec_transfer.ec_connector.base import ECConnectorBase, ECConnectorRole
from vllm.distributed.ec_transfer.ec_connector.example_connector import (
    ECExampleConnector,
    ECExampleConnectorMetadata,
    MMMeta,
)
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.worker.ec_connector_model_runner_mixin import ECConnectorModelRunnerMixin

ROWS, WIDTH = 1000, 3584  # 7.2 MB of bfloat16
WARM_UP = 2
WAIT_S = 10.0

Cache = dict[str, torch.Tensor]


class Side:
    """One system: a producer's and a consumer's connector, and what their schedulers would say."""

    def __init__(self, name: str, model: str, transfer: dict[str, Any], disk: bool) -> None:
        self.name = name
        self._disk = disk
        self.cache: Cache = {}
        made = ECExampleConnector if disk else SluiceECConnector
        self.producer = made(config(model, "ec_producer", transfer), ECConnectorRole.WORKER)
        self.consumer = made(config(model, "ec_consumer", transfer), ECConnectorRole.WORKER)

    def saving(self, identifier: str) -> Any:
        if self._disk:
            return ECExampleConnectorMetadata()
        spec = SaveSpec(rows=ROWS, modality="image", attributes={})
        return SluiceStepMetadata(saves={identifier: spec})

    def loading(self, identifier: str, descriptor: Any, transfer: int) -> Any:
        if self._disk:
            meta = ECExampleConnectorMetadata()
            meta.add_mm_data(MMMeta.make_meta(identifier, ROWS))
            return meta
        spec = LoadSpec(transfer, descriptor, ROWS, WIDTH, "bfloat16")
        return SluiceStepMetadata(loads={identifier: spec})

    def nothing(self) -> Any:
        return ECExampleConnectorMetadata() if self._disk else SluiceStepMetadata()


def config(model: str, role: str, transfer: dict[str, Any]) -> VllmConfig:
    args = EngineArgs(
        model=model,
        dtype="bfloat16",
        enforce_eager=True,
        max_model_len=4096,
        max_num_seqs=8,
        enable_prefix_caching=False,
        limit_mm_per_prompt={"image": 4, "video": 0},
        ec_transfer_config={**transfer, "ec_role": role},
    )
    return args.create_engine_config()


@contextlib.contextmanager
def serving(connector: ECConnectorBase) -> Iterator[None]:
    """The process's connector, as the runner's code finds it."""
    ec_transfer_state._EC_CONNECTOR_AGENT = connector
    try:
        yield
    finally:
        ec_transfer_state._EC_CONNECTOR_AGENT = None


def step_ns(cache: Cache, meta: Any, work: Callable[[], None]) -> int:
    """One step's part of the runner around `work`."""
    output: Any = SimpleNamespace(ec_connector_metadata=meta, finished_req_ids=set())
    start = time.perf_counter_ns()
    with ECConnectorModelRunnerMixin.maybe_get_ec_connector_output(output, cache):
        work()
    return time.perf_counter_ns() - start


def save(side: Side, identifier: str, feature: torch.Tensor) -> int:
    def work() -> None:
        side.cache[identifier] = feature
        ECConnectorModelRunnerMixin.maybe_save_ec_to_connector(side.cache, identifier)

    def work_alone() -> None:
        side.cache[identifier] = feature

    with serving(side.producer):
        alone = step_ns(side.cache, side.nothing(), work_alone)
        with_save = step_ns(side.cache, side.saving(identifier), work)
    side.cache.clear()
    return with_save - alone


def load(side: Side, identifier: str, transfer: int, descriptor: Any, other: torch.Tensor) -> int:
    """`other`: a feature in the engine's own memory, which the step without a load gathers."""
    target = torch.empty(ROWS, WIDTH, dtype=torch.bfloat16)
    target.fill_(0)
    side.cache["other"] = other

    def work() -> None:
        target.copy_(side.cache[identifier])

    def work_alone() -> None:
        target.copy_(side.cache["other"])

    with serving(side.consumer):
        alone = step_ns(side.cache, side.nothing(), work_alone)
        with_load = step_ns(side.cache, side.loading(identifier, descriptor, transfer), work)
    side.cache.clear()
    with serving(side.consumer):
        step_ns(side.cache, side.nothing(), lambda: None)  # the engine dropped it: leases end
    return with_load - alone


def emit(name: str, samples: list[int]) -> None:
    print(json.dumps({"series": name, "unit": "ns", "samples": samples}), flush=True)


def measure(sluice: Side, disk: Side, client: _core.Client, count: int) -> None:
    generator = torch.Generator().manual_seed(1)
    samples: dict[str, list[int]] = {}
    for number in range(count + WARM_UP):
        identifier = f"{number:064x}"
        # Views of one batch, as an encoder's outputs are.
        batch = torch.randn(2 * ROWS, WIDTH, generator=generator).to(torch.bfloat16)
        feature, other = batch[:ROWS], batch[ROWS:]
        took: dict[str, int] = {}
        for side in (sluice, disk) if number % 2 == 0 else (disk, sluice):
            took[f"{side.name}_save_ns"] = save(side, identifier, feature)
        descriptor = published(client, identifier)
        for side in (sluice, disk) if number % 2 == 0 else (disk, sluice):
            took[f"{side.name}_load_ns"] = load(side, identifier, number, descriptor, other)
        if number >= WARM_UP:
            for name, value in took.items():
                samples.setdefault(name, []).append(value)
    for name, values in samples.items():
        emit(name, values)


def published(client: _core.Client, identifier: str) -> Any:
    """Where the feature lies, once its save has ended; checked against every digest, as the
    consumer's scheduler does before it promises anything.
    """
    deadline = time.monotonic() + WAIT_S
    keys: list[str] = []
    while not keys:
        if time.monotonic() > deadline:
            raise SystemExit(f"the feature {identifier} was not published")
        time.sleep(0.001)
        keys = [one["key"] for one in client.list("") if one["key"].endswith(identifier)]
    key = _core.ObjectKey.parse(keys[0])
    if client.wait([key], WAIT_S) != ["present"]:
        raise SystemExit(f"the feature {identifier} was not published")
    with client.get(key) as lease:
        return lease.descriptor.to_tuple()


def main() -> None:
    directory, model, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        sluice = Side(
            "sluice",
            model,
            {
                "ec_connector": "SluiceECConnector",
                "ec_connector_module_path": "sluice.vllm",
                "ec_connector_extra_config": {"directory": directory, "allow_small_arena": True},
            },
            disk=False,
        )
        disk = Side(
            "disk",
            model,
            {
                "ec_connector": "ECExampleConnector",
                "ec_connector_extra_config": {"shared_storage_path": folder},
            },
            disk=True,
        )
        client = _core.Client.attach(directory=directory, label="bench scheduler")
        try:
            measure(sluice, disk, client, count)
        finally:
            client.close()
            for side in (sluice, disk):
                side.producer.shutdown()
                side.consumer.shutdown()


if __name__ == "__main__":
    main()
