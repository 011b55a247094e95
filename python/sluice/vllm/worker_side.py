"""The connector in a worker's process: wires the parts and dispatches by role.

Threads: the worker's engine thread.
Failure: no exception leaves a hook; one that was not foreseen is logged once and counted.
"""

from typing import TYPE_CHECKING

import torch
from vllm.logger import init_logger

from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters
from sluice.vllm.key_template import KeyTemplate
from sluice.vllm.mailbox import Board
from sluice.vllm.metadata import SluiceStepMetadata, SluiceWorkerMetadata
from sluice.vllm.pin_budget import PinBudget
from sluice.vllm.settings import Settings
from sluice.vllm.topology import identity_of
from sluice.vllm.worker_consumer import EncoderCache, WorkerConsumer
from sluice.vllm.worker_producer import WorkerProducer

if TYPE_CHECKING:
    from vllm.config import VllmConfig

logger = init_logger("vllm.sluice.worker")


class WorkerSide:
    def __init__(self, vllm_config: "VllmConfig", settings: Settings) -> None:
        transfer = vllm_config.ec_transfer_config
        assert transfer is not None
        self._identity = identity_of(vllm_config, "worker")
        keys = KeyTemplate(vllm_config, settings)
        self._counters = Counters()
        self._reported = 0  # version of the counters that the scheduler was told
        self._attachment = Attachment(settings, self._identity.label, self._counters)
        self._board = Board(self._attachment, self._identity, self._counters)
        pins = PinBudget(settings.pinned_share_max)
        self._consumer: WorkerConsumer | None = None
        self._producer: WorkerProducer | None = None
        if transfer.is_ec_consumer:
            self._consumer = WorkerConsumer(
                self._attachment, keys, self._board, self._counters, pins, _device()
            )
            self._attachment.listen(pins.refresh)
        if transfer.is_ec_producer or settings.store_local_encodes:
            self._producer = WorkerProducer(
                settings,
                self._attachment,
                keys,
                self._board,
                self._counters,
                self._identity.writes,
            )
        self._attachment.listen(self._board.keep)
        self._attachment.start()
        self._board.post()

    # --- hooks, as vLLM calls them ---

    def start_save_caches(self, encoder_cache: EncoderCache, meta: SluiceStepMetadata) -> None:
        if self._consumer is not None:
            self._consumer.drop_stale(encoder_cache)
        if self._producer is not None and meta.republish:
            self._producer.republish(encoder_cache, meta.republish)

    def start_load_caches(self, encoder_cache: EncoderCache, meta: SluiceStepMetadata) -> None:
        if self._consumer is not None:
            self._consumer.drop_stale(encoder_cache)
            self._consumer.load(encoder_cache, meta.loads)
            self._consumer.relieve(encoder_cache, meta.loads)

    def save_caches(
        self, encoder_cache: EncoderCache, mm_hash: str, meta: SluiceStepMetadata
    ) -> None:
        """Stores what the scheduler's connector asked for, and nothing else."""
        spec = meta.saves.get(mm_hash)
        if self._producer is not None and spec is not None:
            self._producer.save(mm_hash, encoder_cache[mm_hash], spec)

    def build_connector_worker_meta(self) -> SluiceWorkerMetadata | None:
        self._board.post()
        acknowledged = self._consumer.take_acknowledged() if self._consumer is not None else set()
        version = self._counters.version
        if not acknowledged and version == self._reported:
            return None
        self._reported = version
        rank = self._identity.rank
        return SluiceWorkerMetadata({rank: acknowledged}, {rank: self._counters.snapshot()})

    def shutdown(self) -> None:
        if self._producer is not None:
            self._producer.close()
        self._board.post()
        self._attachment.close()


def _device() -> torch.device:
    """Where this worker's encoder cache lies."""
    from vllm.platforms import current_platform

    if current_platform.is_cuda_alike():
        return torch.device(current_platform.device_type, current_platform.current_device())
    return torch.device(current_platform.device_type)
