"""vLLM's real Scheduler with the real KV connector, and a runner that keeps real paged caches.

The runner runs no model. What it writes into a block for a token depends on every token before it,
on the layer and on the head, so that KV of another prompt, position, layer or head is another
value; before a token is sampled it checks every entry the model would attend to, and raises
EngineDied where a real engine would answer wrongly. It calls the connector through vLLM's own code:
V1's KVConnectorModelRunnerMixin, V2's ActiveKVConnector, and the executor's KVOutputAggregator.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import torch
from replay import EngineDied, Replay, config_of, rank_config
from sluice import _core
from sluice.vllm import SluiceKVConnector
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer import kv_transfer_state
from vllm.distributed.kv_transfer.kv_connector.utils import KVOutputAggregator
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.forward_context import set_forward_context
from vllm.sampling_params import SamplingParams
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.worker.gpu.kv_connector import ActiveKVConnector
from vllm.v1.worker.kv_connector_model_runner_mixin import KVConnectorModelRunnerMixin

LAYERS = 5  # four groups of the default size do not divide it
HEADS = 2  # of the model's KV, all ranks together
BLOCK = 16
CONTENT = 8
Role = Literal["kv_producer", "kv_consumer", "kv_both"]
Runner = Literal["v1", "v2"]

HANDOFF = "0123456789abcdef0123456789abcdef"


def prompt_of(tokens: int, salt: int = 0) -> list[int]:
    return [(place * 7 + place // 11 + salt) % 251 for place in range(tokens)]


def prefill_params(handoff: str = HANDOFF) -> dict[str, Any]:
    return {"do_remote_decode": True, "do_remote_prefill": False, "sluice_handoff": handoff}


init_none_hash(lambda value: str(value).encode().ljust(32, b"\0")[:32])


def _hash(value: Any) -> bytes:
    return hashlib.sha256(repr(value).encode()).digest()


def request(
    request_id: str,
    tokens: list[int] | int,
    transfer: dict[str, Any] | None = None,
    max_tokens: int = 1,
    **sampling: Any,
) -> Request:
    extra = {"kv_transfer_params": dict(transfer)} if transfer is not None else None
    return Request(
        request_id=request_id,
        prompt_token_ids=prompt_of(tokens) if isinstance(tokens, int) else tokens,
        sampling_params=SamplingParams(
            max_tokens=max_tokens, ignore_eos=True, extra_args=extra, **sampling
        ),
        pooling_params=None,
        block_hasher=get_request_block_hasher(BLOCK, _hash),
    )


def entries(tokens: list[int], layer: int, first_head: int, heads: int) -> torch.Tensor:
    """What belongs into the cache: (heads, tokens, content), one number for each of these."""
    prefix = []
    state = 0
    for token in tokens:
        state = crc32(token.to_bytes(4, "little"), state)
        prefix.append(state & 0x7FFF)
    base = torch.tensor(prefix, dtype=torch.int32).view(1, -1, 1)
    head = torch.arange(first_head, first_head + heads, dtype=torch.int32).view(-1, 1, 1)
    place = torch.arange(CONTENT, dtype=torch.int32).view(1, 1, -1)
    return ((base + layer * 1009 + head * 5003 + place * 31) & 0x7FFF).to(torch.int16)


@dataclass
class Table:
    blocks: list[int]
    computed: int = 0


@dataclass
class WorkerReplay:
    """One worker rank: its connector, its paged cache, and vLLM's hook sequence around them."""

    config: VllmConfig
    connector: SluiceKVConnector
    runner: Runner
    rank: int
    ranks: int
    blocks: int
    tokens_of: Callable[[str], list[int]]
    between_layers: Callable[[int], None] = lambda layer: None
    tables: dict[str, Table] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.heads = max(1, HEADS // self.ranks)
        self.first_head = self.rank * HEADS // self.ranks
        shape = (self.blocks, self.heads, BLOCK, CONTENT)
        self.caches = {
            f"model.layers.{layer}.self_attn.attn": torch.full(shape, -1, dtype=torch.int16)
            for layer in range(LAYERS)
        }
        if self.runner == "v2":
            with self._agent():
                self._active = ActiveKVConnector(self.config, self.caches)
        else:
            self.connector.register_kv_caches(self.caches)

    def run(self, output: SchedulerOutput) -> ModelRunnerOutput:
        for request_id in output.finished_req_ids:
            self.tables.pop(request_id, None)
        self._update_tables(output)
        with self._agent():
            return self._run_v1(output) if self.runner == "v1" else self._run_v2(output)

    @contextmanager
    def _agent(self) -> Iterator[None]:
        kv_transfer_state._KV_CONNECTOR_AGENT = self.connector
        try:
            yield
        finally:
            kv_transfer_state._KV_CONNECTOR_AGENT = None

    def _update_tables(self, output: SchedulerOutput) -> None:
        for new in output.scheduled_new_reqs:
            self.tables[new.req_id] = Table(list(new.block_ids[0]), new.num_computed_tokens)
        cached = output.scheduled_cached_reqs
        for request_id, ids, computed in zip(
            cached.req_ids, cached.new_block_ids, cached.num_computed_tokens, strict=True
        ):
            table = self.tables[request_id]
            table.computed = computed
            if request_id in cached.resumed_req_ids:
                table.blocks = []
            if ids is not None:
                table.blocks += ids[0]

    def _run_v1(self, output: SchedulerOutput) -> ModelRunnerOutput:
        mixin = KVConnectorModelRunnerMixin
        if not output.total_num_scheduled_tokens:
            return mixin.kv_connector_no_forward(output, self.config)
        with (
            set_forward_context(None, self.config),
            mixin.maybe_get_kv_connector_output(output) as kv_output,
        ):
            self._forward(output)
        return self._answer(output, kv_output)

    def _run_v2(self, output: SchedulerOutput) -> ModelRunnerOutput:
        if not output.total_num_scheduled_tokens:
            return self._active.no_forward(output)
        self._active.pre_forward(output)
        self._forward(output)
        self._active.finish_forward()
        return self._answer(output, self._active.post_forward(output.finished_req_ids))

    def _forward(self, output: SchedulerOutput) -> None:
        for layer, (name, cache) in enumerate(self.caches.items()):
            self.connector.wait_for_layer_load(name)
            for request_id, count in output.num_scheduled_tokens.items():
                self._compute(request_id, count, layer, cache)
            self.connector.save_kv_layer(name, cache, None)
            self.between_layers(layer)

    def _compute(self, request_id: str, count: int, layer: int, cache: torch.Tensor) -> None:
        """Checks what the model attends to, then writes the scheduled tokens' entries."""
        table = self.tables[request_id]
        end = table.computed + count
        tokens = self.tokens_of(request_id)[:end]
        wanted = entries(tokens, layer, self.first_head, self.heads)
        place = torch.arange(len(tokens))
        block = torch.tensor(table.blocks)[place // BLOCK]
        past = slice(0, table.computed)
        found = cache[block[past], :, place[past] % BLOCK].transpose(0, 1)
        if not torch.equal(found, wanted[:, past]):
            bad = (found != wanted[:, past]).any(0).any(1).nonzero().flatten().tolist()
            raise EngineDied(
                f"{request_id}: layer {layer} of rank {self.rank} holds other KV at tokens "
                f"{bad[:4]}... of {table.computed}"
            )
        now = slice(table.computed, end)
        cache[block[now], :, place[now] % BLOCK] = wanted[:, now].transpose(0, 1)

    @staticmethod
    def _answer(output: SchedulerOutput, kv_output: KVConnectorOutput | None) -> ModelRunnerOutput:
        ids = list(output.num_scheduled_tokens)
        return ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: index for index, request_id in enumerate(ids)},
            sampled_token_ids=[[] for _ in ids],  # filled in by Replay.deliver
            kv_connector_output=kv_output,
        )


class KVWorld(Replay):
    """One engine: scheduler, connector, workers."""

    def __init__(
        self,
        model: Path,
        directory: str,
        role: Role,
        *,
        runner: Runner = "v1",
        extra: dict[str, Any] | None = None,
        blocks: int = 128,
        ranks: int = 1,
        policy: str = "recompute",
        **engine: Any,
    ) -> None:
        config = engine_config(model, directory, role, extra, ranks, policy, **engine)
        cache = kv_cache(blocks, ranks)
        super().__init__(config, cache)
        connector = self.scheduler.connector
        assert isinstance(connector, SluiceKVConnector)
        self.connector = connector
        self.workers = []
        for rank in range(ranks):
            own = rank_config(config, rank)
            worker = SluiceKVConnector(own, KVConnectorRole.WORKER, cache)
            self.workers.append(
                WorkerReplay(own, worker, runner, rank, ranks, blocks, self._tokens)
            )
        self._aggregator = KVOutputAggregator(ranks)
        self.free_at_start = self.free_blocks()

    def abort(self, request_id: str) -> None:
        self.scheduler.finish_requests(request_id, RequestStatus.FINISHED_ABORTED)

    def params(self, request_id: str) -> dict[str, Any]:
        """What the engine answered."""
        params = self.finished[request_id].kv_transfer_params
        assert isinstance(params, dict), params
        return params

    def _merge(self, results: list[ModelRunnerOutput]) -> ModelRunnerOutput:
        merged = self._aggregator.aggregate(list(results))
        assert merged is not None
        return merged

    def _meta(self, output: SchedulerOutput) -> Any:
        return output.kv_connector_metadata

    def _sample(self, tokens: list[int]) -> int:
        return token_after(tokens)

    # --- looking in ---

    def free_blocks(self) -> int:
        return int(self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks())

    def _tokens(self, request_id: str) -> list[int]:
        return list(self.scheduler.requests[request_id].all_token_ids)


def token_after(tokens: list[int]) -> int:
    """It depends on all before it, as a model's does."""
    state = 0
    for token in tokens:
        state = crc32(token.to_bytes(4, "little"), state)
    return state % 251


def expected_answer(prompt: list[int], count: int) -> list[int]:
    """What any engine of these tests answers to a prompt."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(token_after(tokens))
    return tokens[len(prompt) :]


def engine_config(
    model: Path,
    directory: str,
    role: Role,
    extra: dict[str, Any] | None = None,
    ranks: int = 1,
    policy: str = "recompute",
    **engine: Any,
) -> VllmConfig:
    transfer = {
        "kv_connector": "SluiceKVConnector",
        "kv_connector_module_path": "sluice.vllm",
        "kv_role": role,
        "kv_load_failure_policy": policy,
        "kv_connector_extra_config": {"directory": directory, **(extra or {})},
    }
    settings = {
        "max_num_batched_tokens": 4096,
        "block_size": BLOCK,
        "async_scheduling": False,
        "limit_mm_per_prompt": {"image": 0, "video": 0},
        **engine,
    }
    return config_of(model, ranks, kv_transfer_config=transfer, **settings)


def kv_cache(blocks: int, ranks: int = 1) -> KVCacheConfig:
    spec = FullAttentionSpec(
        block_size=BLOCK,
        num_kv_heads=max(1, HEADS // ranks),
        head_size=CONTENT,
        dtype=torch.bfloat16,
    )
    names = [f"model.layers.{layer}.self_attn.attn" for layer in range(LAYERS)]
    return KVCacheConfig(
        num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(names, spec)]
    )


def hand_off(
    prefill: KVWorld, tokens: list[int] | int, request_id: str = "p", handoff: str = HANDOFF
) -> dict[str, Any]:
    """Has a prompt computed; what prefill answered."""
    prefill.serve(request(request_id, tokens, prefill_params(handoff)))
    return prefill.params(request_id)


def objects(client: "_core.Client", handoff: str = HANDOFF) -> int:
    """How many objects of a hand-off the arena has."""
    return len(client.list(_core.KvKeys("default", handoff).prefix))


def await_objects(client: "_core.Client", count: int, seconds: float = 15.0) -> None:
    """The writer's and the loader's threads are done a little after the step that asked them."""
    deadline = time.monotonic() + seconds
    while objects(client) != count and time.monotonic() < deadline:
        time.sleep(0.005)
    assert objects(client) == count
