"""SluiceKVConnector: vLLM's KV hooks, handed to the side that this process is.

vLLM builds one object in the scheduler's process and one in each worker; each attaches on its own.
Nothing here waits inside a forward pass; what may wait has a thread.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import vllm
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
    KVConnectorTransferResults,
)
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)
from vllm.logger import init_logger

from sluice.vllm import compatibility
from sluice.vllm.kv import combinations
from sluice.vllm.kv.compatibility import HOOKS
from sluice.vllm.kv.metadata import SluiceKVStepMetadata
from sluice.vllm.kv.metrics import SluiceKVPromMetrics, SluiceKVStats
from sluice.vllm.kv.scheduler_side import SchedulerSide
from sluice.vllm.kv.settings import KVSettings
from sluice.vllm.kv.worker_side import WorkerSide

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.forward_context import ForwardContext
    from vllm.v1.attention.backend import AttentionMetadata
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.kv_cache_interface import KVCacheConfig
    from vllm.v1.outputs import KVConnectorOutput
    from vllm.v1.request import Request

logger = init_logger("vllm.sluice.kv.connector")

T = TypeVar("T")


class SluiceKVConnector(KVConnectorBase_V1):  # type: ignore[misc]  # vLLM has no types here
    """Hands the KV of a prompt from a prefill engine to a decode engine through a Sluice arena.

    Raises ConfigurationError (a ValueError) at start-up for settings that cannot work.
    """

    def __init__(
        self, vllm_config: "VllmConfig", role: KVConnectorRole, kv_cache_config: "KVCacheConfig"
    ) -> None:
        compatibility.check_hooks(KVConnectorBase_V1, HOOKS, "KV")
        super().__init__(vllm_config, role, kv_cache_config)
        settings = KVSettings.parse(self._kv_transfer_config.kv_connector_extra_config)
        combinations.check(vllm_config, kv_cache_config, settings)
        self._scheduler: SchedulerSide | None = None
        self._worker: WorkerSide | None = None
        self._said: set[str] = set()
        self._failed_blocks: set[int] = set()
        if role is KVConnectorRole.SCHEDULER:
            untested = compatibility.untested(vllm.__version__)
            if untested is not None:
                logger.warning("sluice: %s", untested)
            block_tokens = kv_cache_config.kv_cache_groups[0].kv_cache_spec.block_size
            self._scheduler = SchedulerSide(vllm_config, settings, block_tokens)
        else:
            self._worker = WorkerSide(vllm_config, settings, kv_cache_config)

    @property
    def requires_kv_delivery(self) -> bool:
        """False: each step's blocks are read before it ends, so a preemption takes nothing back."""
        return False

    def shutdown(self) -> None:
        side = self._scheduler or self._worker
        if side is not None:
            side.shutdown()
        self._scheduler, self._worker = None, None

    # --- worker ---

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        self._at_work()[0].register_kv_caches(kv_caches)

    def start_load_kv(self, forward_context: "ForwardContext", **kwargs: Any) -> None:
        worker, meta = self._at_work()
        self._guarded("start_load_kv", lambda: worker.start_load_kv(meta))

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Loads are asynchronous: what a step uses is there before it is scheduled."""

    def save_kv_layer(
        self,
        layer_name: str,
        kv_layer: torch.Tensor,
        attn_metadata: "AttentionMetadata",
        **kwargs: Any,
    ) -> None:
        worker, meta = self._at_work()
        if meta.saves:
            self._guarded("save_kv_layer", lambda: worker.save_kv_layer(layer_name, meta))

    def wait_for_save(self) -> None:
        worker, meta = self._at_work()
        self._guarded("wait_for_save", lambda: worker.wait_for_save(meta))

    def get_transfer_results(self, finished_req_ids: set[str]) -> KVConnectorTransferResults:
        results = KVConnectorTransferResults()
        for loaded in self._at_work()[0].take_loaded():
            results.finished_recving.add(loaded.request_id)
            self._failed_blocks.update(loaded.failed_blocks)
        return results

    def get_block_ids_with_load_errors(self) -> set[int]:
        """Of the loads that get_transfer_results() named right before."""
        failed, self._failed_blocks = self._failed_blocks, set()
        return failed

    # --- scheduler ---

    def on_new_request(self, request: "Request") -> None:
        self._planner().on_new_request(request)

    def get_num_new_matched_tokens(
        self, request: "Request", num_computed_tokens: int
    ) -> tuple[int, bool]:
        return self._planner().get_num_new_matched_tokens(request, num_computed_tokens)

    def update_state_after_alloc(
        self, request: "Request", blocks: "KVCacheBlocks", num_external_tokens: int
    ) -> None:
        self._planner().update_state_after_alloc(request, blocks, num_external_tokens)

    def build_connector_meta(self, scheduler_output: "SchedulerOutput") -> KVConnectorMetadata:
        return self._planner().build_connector_meta(scheduler_output)

    def update_connector_output(self, connector_output: "KVConnectorOutput") -> None:
        self._planner().update_connector_output(connector_output)

    def request_finished(
        self, request: "Request", block_ids: list[int]
    ) -> tuple[bool, dict[str, Any] | None]:
        return self._planner().request_finished(request)

    # --- statistics ---

    def get_kv_connector_stats(self) -> KVConnectorStats | None:
        side = self._scheduler or self._worker
        return None if side is None else side.stats()

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> KVConnectorStats:
        return SluiceKVStats(data=dict(data or {}))

    @classmethod
    def build_prom_metrics(
        cls,
        vllm_config: "VllmConfig",
        metric_types: dict[Any, Any],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> KVConnectorPromMetrics:
        return SluiceKVPromMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    @classmethod
    def requires_piecewise_for_cudagraph(cls, extra_config: dict[str, Any]) -> bool:
        """save_kv_layer must run between the layers."""
        return True

    # --- inside ---

    def _planner(self) -> SchedulerSide:
        assert self._scheduler is not None, "a scheduler's hook was called on a worker's connector"
        return self._scheduler

    def _at_work(self) -> tuple[WorkerSide, SluiceKVStepMetadata]:
        assert self._worker is not None, "a worker's hook was called on a scheduler's connector"
        meta = self._connector_metadata
        return self._worker, meta if isinstance(meta, SluiceKVStepMetadata) else _NOTHING

    def _guarded(self, hook: str, call: Callable[[], T]) -> T | None:
        """An exception here would end the engine, and with it requests without a hand-off."""
        try:
            return call()
        except Exception:
            if hook not in self._said:
                self._said.add(hook)
                logger.exception("sluice: %s failed; further failures are not logged", hook)
            return None


_NOTHING = SluiceKVStepMetadata()
