"""The KV connector in a worker's process: wires the parts and dispatches by role.

Threads: the worker's engine thread; writer and loader have threads of their own.
Failure: no exception leaves a hook of a step; a cache that cannot be handed off stops start-up.
"""

import time
from typing import TYPE_CHECKING

import torch

from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters
from sluice.vllm.kv.board import Board
from sluice.vllm.kv.counts import COUNTS
from sluice.vllm.kv.description import Description, layout_of
from sluice.vllm.kv.identity import identity_of
from sluice.vllm.kv.load import Load
from sluice.vllm.kv.loader import HandoffLoader, Loaded
from sluice.vllm.kv.metadata import LoadJob, SluiceKVStepMetadata
from sluice.vllm.kv.metrics import Growth, SluiceKVStats
from sluice.vllm.kv.paged_cache import PagedCache
from sluice.vllm.kv.settings import KVSettings
from sluice.vllm.kv.step_ticket import StepTicket
from sluice.vllm.kv.writer import Ended, GroupReady, HandoffWriter

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.kv_cache_interface import KVCacheConfig


# vLLM steps without a pause while a request waits for its KV: an engine that has nothing to compute
# rests so long between two steps, and leaves its processor to whoever computes that KV. A request
# that comes meanwhile waits no longer than that.
_REST_S = 0.005


class WorkerSide:
    def __init__(
        self, vllm_config: "VllmConfig", settings: KVSettings, cache_config: "KVCacheConfig"
    ) -> None:
        self._vllm_config = vllm_config
        self._settings = settings
        self._cache_config = cache_config
        self._identity = identity_of(vllm_config, "worker")
        self._counters = Counters(COUNTS)
        self._growth = Growth(self._counters)
        self._attachment = Attachment(settings, self._identity.label, self._counters)
        self._board = Board(self._attachment, self._identity, self._counters)
        self._cache: PagedCache | None = None
        self._description: Description | None = None
        self._writer: HandoffWriter | None = None
        self._loader: HandoffLoader | None = None
        self._ticket = StepTicket()
        self._given: set[int] = set()  # layer groups of this step that the writer has
        self._attachment.listen(self._board.keep)
        self._attachment.start()
        self._board.post()

    def register_kv_caches(self, tensors: dict[str, torch.Tensor]) -> None:
        """Raises ConfigurationError."""
        self._cache = PagedCache(
            tensors,
            self._cache_config,
            layout_of(self._vllm_config, tensors),
            self._settings.layers_per_group,
        )
        self._description = Description(
            self._vllm_config, self._settings, self._cache, self._identity.ranks
        )
        transfer = self._vllm_config.kv_transfer_config
        assert transfer is not None
        if transfer.is_kv_producer:
            self._writer = HandoffWriter(
                self._settings,
                self._attachment,
                self._board,
                self._counters,
                self._identity.rank,
                self._identity.ranks,
            )
            self._writer.start(self._cache, self._description)
        if transfer.is_kv_consumer:
            self._loader = HandoffLoader(
                self._settings, self._attachment, self._counters, self._open_load
            )

    # --- hooks, as vLLM calls them ---

    def start_load_kv(self, meta: SluiceKVStepMetadata) -> None:
        if self._loader is None:
            return
        for job in meta.loads:
            self._loader.put(job)
        for request_id in meta.cancelled:
            self._loader.cancel(request_id)
        if meta.idle:
            self._loader.rest(_REST_S)

    def save_kv_layer(self, layer_name: str, meta: SluiceKVStepMetadata) -> None:
        if not meta.saves or self._cache is None:
            return
        group = self._cache.completes.get(layer_name)
        if group is not None:
            self._hand_over(group, meta)

    def wait_for_save(self, meta: SluiceKVStepMetadata) -> None:
        """Until this step's blocks were read and its commits made, or the deadline passed."""
        if self._writer is None or self._cache is None:
            return
        if meta.saves:
            started = time.perf_counter_ns()
            for group in range(len(self._cache.groups)):
                self._hand_over(group, meta)
            if not self._ticket.wait(self._settings.save_timeout_s):
                self._counters.add("save_deadlines")
            self._counters.add("save_wait_us", (time.perf_counter_ns() - started) // 1000)
            self._ticket = StepTicket()
            self._given = set()
        for handoff, committed in meta.ended.items():
            self._writer.end(Ended(handoff, committed))

    def take_loaded(self) -> list[Loaded]:
        return [] if self._loader is None else self._loader.take()

    def stats(self) -> SluiceKVStats | None:
        self._board.post()
        return self._growth.take()

    def shutdown(self) -> None:
        if self._writer is not None:
            self._writer.close(self._settings.save_timeout_s)
        if self._loader is not None:
            self._loader.close(self._settings.save_timeout_s)
        self._board.post()
        self._attachment.close()

    # --- inside ---

    def _hand_over(self, group: int, meta: SluiceKVStepMetadata) -> None:
        if self._writer is None or self._cache is None or group in self._given:
            return
        self._given.add(group)
        last = len(self._given) == len(self._cache.groups)
        for job in meta.saves:
            self._ticket.add(commit=last and job.final)
            self._writer.put(GroupReady(job, group, last, self._ticket))

    def _open_load(self, job: LoadJob) -> Load:
        assert self._cache is not None
        assert self._description is not None
        return Load(
            job,
            self._settings,
            self._cache,
            self._description,
            self._counters,
            self._identity.rank,
            self._identity.ranks,
        )
