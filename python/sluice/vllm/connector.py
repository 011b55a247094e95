"""SluiceECConnector: vLLM's encoder-cache hooks, handed to the side that this process is.

vLLM builds one object in the scheduler's process and one in each worker; each attaches on its own.
All hooks of vLLM 0.32 that matter here are below; what they do is in scheduler_side.py and
worker_side.py. Nothing here blocks the engine: what may wait has a thread.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import vllm
from vllm.distributed.ec_transfer.ec_connector.base import (
    ECConnectorBase,
    ECConnectorMetadata,
    ECConnectorRole,
    ECConnectorWorkerMetadata,
)
from vllm.distributed.ec_transfer.ec_connector.metrics import (
    ECConnectorPromMetrics,
    ECConnectorStats,
)
from vllm.logger import init_logger

from sluice.vllm import combinations, compatibility
from sluice.vllm.metadata import SluiceStepMetadata
from sluice.vllm.metrics import SluiceECPromMetrics, SluiceECStats
from sluice.vllm.scheduler_side import SchedulerSide
from sluice.vllm.settings import Settings
from sluice.vllm.worker_side import WorkerSide

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.outputs import ECConnectorOutput
    from vllm.v1.request import Request

logger = init_logger("vllm.sluice.connector")

T = TypeVar("T")


class SluiceECConnector(ECConnectorBase):  # type: ignore[misc]  # vLLM has no types here
    """Moves encoder outputs between engines through a Sluice arena.

    Raises ConfigurationError (a ValueError) at start-up for settings that cannot work.
    """

    def __init__(self, vllm_config: "VllmConfig", role: ECConnectorRole) -> None:
        compatibility.check_hooks(ECConnectorBase)
        super().__init__(vllm_config, role)
        transfer = vllm_config.ec_transfer_config
        assert transfer is not None
        settings = Settings.parse(transfer.ec_connector_extra_config)
        combinations.check(vllm_config, settings)
        self._scheduler: SchedulerSide | None = None
        self._worker: WorkerSide | None = None
        self._said: set[str] = set()
        if role is ECConnectorRole.SCHEDULER:
            untested = compatibility.untested(vllm.__version__)
            if untested is not None:
                logger.warning("sluice: %s", untested)
            self._scheduler = SchedulerSide(vllm_config, settings)
        else:
            self._worker = WorkerSide(vllm_config, settings)

    def shutdown(self) -> None:
        side = self._scheduler or self._worker
        if side is not None:
            side.shutdown()
        self._scheduler, self._worker = None, None

    # --- worker ---

    def start_save_caches(self, **kwargs: Any) -> None:
        worker, meta = self._at_work()
        self._guarded(
            "start_save_caches", lambda: worker.start_save_caches(kwargs["encoder_cache"], meta)
        )

    def start_load_caches(self, encoder_cache: dict[str, torch.Tensor], **kwargs: Any) -> None:
        worker, meta = self._at_work()
        self._guarded("start_load_caches", lambda: worker.start_load_caches(encoder_cache, meta))

    def save_caches(
        self, encoder_cache: dict[str, torch.Tensor], mm_hash: str, **kwargs: Any
    ) -> None:
        worker, meta = self._at_work()
        self._guarded("save_caches", lambda: worker.save_caches(encoder_cache, mm_hash, meta))

    def build_connector_worker_meta(self) -> ECConnectorWorkerMetadata | None:
        worker, _ = self._at_work()
        return self._guarded("build_connector_worker_meta", worker.build_connector_worker_meta)

    # --- scheduler ---

    def ensure_cache_available(self, request: "Request", num_computed_tokens: int) -> bool:
        return self._planner().ensure_cache_available(request, num_computed_tokens)

    def has_cache_item(self, identifier: str) -> bool:
        return self._planner().has_cache_item(identifier)

    def update_state_after_alloc(self, request: "Request", index: int) -> None:
        self._planner().update_state_after_alloc(request, index)

    def build_connector_meta(self, scheduler_output: "SchedulerOutput") -> ECConnectorMetadata:
        return self._planner().build_connector_meta(scheduler_output)

    def update_connector_output(self, connector_output: "ECConnectorOutput") -> None:
        self._planner().update_connector_output(connector_output)

    def take_unavailable_requests(self) -> set[str]:
        return self._planner().take_unavailable_requests()

    def request_finished(self, request: "Request") -> tuple[bool, dict[str, Any] | None]:
        return self._planner().request_finished(request)

    # --- statistics ---

    def get_ec_connector_stats(self) -> ECConnectorStats | None:
        """The scheduler's side answers for the whole engine."""
        return None if self._scheduler is None else self._scheduler.stats()

    @classmethod
    def build_ec_connector_stats(cls, data: dict[str, Any] | None = None) -> ECConnectorStats:
        return SluiceECStats(data=dict(data or {}))

    @classmethod
    def build_prom_metrics(
        cls,
        vllm_config: "VllmConfig",
        metric_types: dict[Any, Any],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> ECConnectorPromMetrics:
        return SluiceECPromMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    # --- inside ---

    def _planner(self) -> SchedulerSide:
        assert self._scheduler is not None, "a scheduler's hook was called on a worker's connector"
        return self._scheduler

    def _at_work(self) -> tuple[WorkerSide, SluiceStepMetadata]:
        assert self._worker is not None, "a worker's hook was called on a scheduler's connector"
        meta = self._connector_metadata
        return self._worker, meta if isinstance(meta, SluiceStepMetadata) else SluiceStepMetadata()

    def _guarded(self, hook: str, call: Callable[[], T]) -> T | None:
        """An exception here would end the engine, and with it requests that have no media."""
        try:
            return call()
        except Exception:
            if hook not in self._said:
                self._said.add(hook)
                logger.exception("sluice: %s failed; further failures are not logged", hook)
            return None
