"""vLLM's real Scheduler with the real connector, and a runner that replays a model runner's hooks.

The runner runs no model. It keeps an encoder cache as vLLM's runners do, calls the connector
through vLLM's own code (V1: ECConnectorModelRunnerMixin; V2: ActiveECConnector), and raises
EngineDied where the real one would: when a scheduled token needs a feature that the cache lacks.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from replay import EngineDied, Replay, config_of, rank_config
from sluice.vllm import SluiceECConnector
from vllm.config import VllmConfig
from vllm.distributed.ec_transfer import ec_transfer_state
from vllm.distributed.ec_transfer.ec_connector.base import ECConnectorRole
from vllm.distributed.ec_transfer.ec_connector.utils import ECOutputAggregator
from vllm.multimodal.inputs import (
    MultiModalBatchedField,
    MultiModalFeatureSpec,
    MultiModalFieldElem,
    MultiModalKwargsItem,
    PlaceholderRange,
)
from vllm.sampling_params import SamplingParams
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import (
    EMPTY_MODEL_RUNNER_OUTPUT,
    ECConnectorOutput,
    ModelRunnerOutput,
    make_empty_encoder_model_runner_output,
)
from vllm.v1.request import Request
from vllm.v1.worker.ec_connector_model_runner_mixin import ECConnectorModelRunnerMixin
from vllm.v1.worker.gpu.ec_connector import ActiveECConnector

WIDTH = 256
Runner = Literal["v1", "v2"]
Role = Literal["ec_producer", "ec_consumer", "ec_both"]


def feature_of(identifier: str, rows: int) -> torch.Tensor:
    """What the encoder of these tests makes of an item: (rows, WIDTH) bfloat16."""
    seed = int.from_bytes(hashlib.sha256(identifier.encode()).digest()[:8], "little") >> 1
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, WIDTH, generator=generator).to(torch.bfloat16)


def media_item() -> MultiModalKwargsItem:
    """An item with pixels and their grid."""
    return MultiModalKwargsItem({"pixel_values": _elem(torch.zeros(4, 8)), **_grid()})


def reference_item() -> MultiModalKwargsItem:
    """An item with nothing to encode: only what sizes its placeholder."""
    return MultiModalKwargsItem(_grid())


def embeds_item() -> MultiModalKwargsItem:
    """An item that brings its own embeddings."""
    return MultiModalKwargsItem({"image_embeds": _elem(torch.zeros(4, WIDTH)), **_grid()})


def _grid() -> dict[str, MultiModalFieldElem]:
    return {"image_grid_thw": _elem(torch.tensor([1, 4, 4]))}


def _elem(data: torch.Tensor) -> MultiModalFieldElem:
    return MultiModalFieldElem(data=data, field=MultiModalBatchedField())


def item(
    identifier: str,
    offset: int,
    rows: int,
    data: MultiModalKwargsItem | None = None,
    modality: str = "image",
) -> MultiModalFeatureSpec:
    return MultiModalFeatureSpec(
        data=media_item() if data is None else data,
        modality=modality,
        identifier=identifier,
        mm_position=PlaceholderRange(offset=offset, length=rows),
    )


def request(
    request_id: str,
    features: list[MultiModalFeatureSpec],
    tokens: int = 64,
    max_tokens: int = 1,
    transfer: Any = None,
    priority: int = 0,
) -> Request:
    extra = {"ec_transfer_params": transfer} if transfer is not None else None
    return Request(
        request_id=request_id,
        prompt_token_ids=[5] * tokens,
        sampling_params=SamplingParams(max_tokens=max_tokens, extra_args=extra),
        pooling_params=None,
        mm_features=features,
        priority=priority,
        arrival_time=float(priority),
    )


@dataclass
class WorkerReplay:
    """One worker rank: its connector, its encoder cache, and vLLM's hook sequence around them."""

    config: VllmConfig
    connector: SluiceECConnector
    runner: Runner
    encoder_cache: dict[str, torch.Tensor] = field(default_factory=dict)
    encoded: list[str] = field(default_factory=list)
    gathered: dict[str, torch.Tensor] = field(default_factory=dict)  # last seen by the model
    features: dict[str, list[MultiModalFeatureSpec]] = field(default_factory=dict)
    encode: Callable[[str, int], torch.Tensor] = feature_of

    def run(self, output: SchedulerOutput) -> ModelRunnerOutput:
        for new in output.scheduled_new_reqs:
            self.features[new.req_id] = new.mm_features
        for identifier in output.free_encoder_mm_hashes:
            self.encoder_cache.pop(identifier, None)
        ec_transfer_state._EC_CONNECTOR_AGENT = self.connector
        try:
            return self._run_v1(output) if self.runner == "v1" else self._run_v2(output)
        finally:
            ec_transfer_state._EC_CONNECTOR_AGENT = None

    def _run_v1(self, output: SchedulerOutput) -> ModelRunnerOutput:
        mixin = ECConnectorModelRunnerMixin
        if not self.connector.is_consumer:
            with mixin.maybe_get_ec_connector_output(output, self.encoder_cache):
                self._encode(output, save=True)
            return make_empty_encoder_model_runner_output(output)
        if not output.total_num_scheduled_tokens:
            return EMPTY_MODEL_RUNNER_OUTPUT
        with mixin.maybe_get_ec_connector_output(output, self.encoder_cache) as ec_output:
            self._encode(output, save=True)
            self._gather(output)
        return self._answer(output, ec_output)

    def _run_v2(self, output: SchedulerOutput) -> ModelRunnerOutput:
        active = ActiveECConnector(self.config, self.encoder_cache)
        if not output.total_num_scheduled_tokens:
            return active.no_forward(output)
        with active.maybe_get_output(output) as ec_output:
            self._encode(output, save=False)  # V2 saves what is new once the encoder has run
            if self.connector.is_consumer:
                self._gather(output)
        if self.connector.is_consumer:
            return self._answer(output, ec_output)
        return ModelRunnerOutput.with_ec_conn_output(
            make_empty_encoder_model_runner_output(output), ec_output
        )

    def _encode(self, output: SchedulerOutput, save: bool) -> None:
        """Encodes what is scheduled as one batch, so that outputs are views of one tensor."""
        wanted = [
            self.features[request_id][index]
            for request_id, indices in output.scheduled_encoder_inputs.items()
            for index in indices
        ]
        for one in wanted:
            if one.data is not None and set(one.data) == {"image_grid_thw"}:
                raise EngineDied(f"asked to encode {one.identifier}, which has nothing to encode")
        if not wanted:
            return
        batch = torch.cat(
            [self.encode(one.identifier, one.mm_position.get_num_embeds()) for one in wanted]
        )
        at = 0
        for one in wanted:
            rows = one.mm_position.get_num_embeds()
            self.encoder_cache[one.identifier] = batch[at : at + rows]
            at += rows
            self.encoded.append(one.identifier)
            if save:
                ECConnectorModelRunnerMixin.maybe_save_ec_to_connector(
                    self.encoder_cache, one.identifier
                )

    def _gather(self, output: SchedulerOutput) -> None:
        starts = {new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs}
        cached = output.scheduled_cached_reqs
        starts |= dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        for request_id, tokens in output.num_scheduled_tokens.items():
            start = starts[request_id]
            for one in self.features[request_id]:
                place = one.mm_position
                if place.offset >= start + tokens or place.offset + place.length <= start:
                    continue
                found = self.encoder_cache.get(one.identifier)
                if found is None:
                    raise EngineDied(f"Encoder cache miss for {one.identifier} of {request_id}")
                self.gathered[one.identifier] = found.clone()

    @staticmethod
    def _answer(output: SchedulerOutput, ec_output: ECConnectorOutput | None) -> ModelRunnerOutput:
        ids = list(output.num_scheduled_tokens)
        return ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: index for index, request_id in enumerate(ids)},
            sampled_token_ids=[[] for _ in ids],  # filled in by Replay.deliver
            ec_connector_output=ec_output,
        )


class World(Replay):
    """One engine: scheduler, connector, workers."""

    def __init__(
        self,
        model: Path,
        directory: str,
        role: Role,
        *,
        runner: Runner = "v1",
        extra: dict[str, Any] | None = None,
        blocks: int = 256,
        ranks: int = 1,
        workers_attached: Iterable[int] | None = None,
        **engine: Any,
    ) -> None:
        config = engine_config(model, directory, role, extra, ranks, **engine)
        self.workers = [
            WorkerReplay(
                rank_config(config, rank),
                SluiceECConnector(rank_config(config, rank), ECConnectorRole.WORKER),
                runner,
            )
            for rank in (range(ranks) if workers_attached is None else workers_attached)
        ]
        super().__init__(config, kv_cache(blocks, config.cache_config.block_size))
        connector = self.scheduler.ec_connector
        assert isinstance(connector, SluiceECConnector)
        self.connector = connector

    def close(self) -> None:
        for worker in self.workers:
            worker.encoder_cache.clear()
            worker.gathered.clear()
        super().close()

    def _merge(self, results: list[ModelRunnerOutput]) -> ModelRunnerOutput:
        """Rank 0's answer with every rank's connector output."""
        merged = ECOutputAggregator().aggregate(list(results))
        assert merged is not None
        return merged

    def _meta(self, output: SchedulerOutput) -> Any:
        return output.ec_connector_metadata

    def _sample(self, tokens: list[int]) -> int:
        return 7


def engine_config(
    model: Path,
    directory: str,
    role: Role,
    extra: dict[str, Any] | None = None,
    ranks: int = 1,
    **engine: Any,
) -> VllmConfig:
    transfer = {
        "ec_connector": "SluiceECConnector",
        "ec_connector_module_path": "sluice.vllm",
        "ec_role": role,
        "ec_connector_extra_config": {
            "directory": directory,
            "allow_small_arena": True,
            **(extra or {}),
        },
    }
    settings = {"limit_mm_per_prompt": {"image": 4, "video": 0}, **engine}
    return config_of(model, ranks, ec_transfer_config=transfer, **settings)


def kv_cache(blocks: int, block_size: int) -> KVCacheConfig:
    spec = FullAttentionSpec(
        block_size=block_size, num_kv_heads=2, head_size=64, dtype=torch.bfloat16
    )
    return KVCacheConfig(
        num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["l0"], spec)]
    )
