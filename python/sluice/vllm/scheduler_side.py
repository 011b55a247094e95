"""The connector in the scheduler's process: wires the parts and dispatches by role.

Threads: vLLM's scheduler thread; the attachment's keeper reads boards beside it.
"""

from typing import TYPE_CHECKING, Any

import vllm
from vllm.logger import init_logger

from sluice.vllm import combinations
from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters
from sluice.vllm.item_table import ItemTable
from sluice.vllm.key_template import KeyTemplate
from sluice.vllm.loads import Loads
from sluice.vllm.mailbox import Board, Roster, cache_bytes_of_others
from sluice.vllm.media import MediaInspector
from sluice.vllm.metadata import SluiceStepMetadata, SluiceWorkerMetadata
from sluice.vllm.metrics import Growth, SluiceECStats
from sluice.vllm.scheduler_consumer import SchedulerConsumer
from sluice.vllm.scheduler_producer import SchedulerProducer
from sluice.vllm.settings import Settings
from sluice.vllm.topology import identity_of
from sluice.vllm.verify_pool import VerifyPool
from sluice.vllm.width import width_rule

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.outputs import ECConnectorOutput
    from vllm.v1.request import Request

logger = init_logger("vllm.sluice.scheduler")


class SchedulerSide:
    def __init__(self, vllm_config: "VllmConfig", settings: Settings) -> None:
        transfer = vllm_config.ec_transfer_config
        assert transfer is not None
        self._settings = settings
        self._is_producer = transfer.is_ec_producer
        identity = identity_of(vllm_config, "scheduler")
        self._identity = identity
        keys = KeyTemplate(vllm_config, settings)
        widths = width_rule(vllm_config.model_config)
        media = MediaInspector(vllm_config.model_config)
        self._cache_bytes = combinations.encoder_cache_bytes(vllm_config, widths.widest)
        self._counters = Counters()
        self._growth = Growth()
        self._worker_counters: dict[int, dict[str, int]] = {}
        self._attachment = Attachment(settings, identity.label, self._counters)
        self._board = Board(self._attachment, identity, self._counters)
        self._roster = Roster(identity)
        self._pool = VerifyPool(settings.verify)
        self._consumer: SchedulerConsumer | None = None
        self._producer: SchedulerProducer | None = None
        if transfer.is_ec_consumer:
            table = ItemTable(keys, self._pool, self._counters, widths)
            loads = Loads(table, identity.loading_ranks)
            self._consumer = SchedulerConsumer(
                settings, self._attachment, self._roster, media, table, loads, self._counters
            )
        if transfer.is_ec_producer or settings.store_local_encodes:
            self._producer = SchedulerProducer(
                self._attachment,
                keys,
                media,
                self._counters,
                skips_encodes=transfer.is_encode_only,
                cache_rows=vllm_config.scheduler_config.encoder_cache_size,
            )
        self._board.state("record", self._record(vllm_config, keys))
        try:
            self._start()
        except BaseException:
            self.shutdown()
            raise

    # --- hooks, as vLLM calls them ---

    def ensure_cache_available(self, request: "Request", num_computed_tokens: int) -> bool:
        if self._producer is not None:
            self._producer.ensure_cache_available(request, num_computed_tokens)
        if self._consumer is not None:
            return self._consumer.ensure_cache_available(request, num_computed_tokens)
        return True

    def has_cache_item(self, identifier: str) -> bool:
        if self._consumer is not None:
            return self._consumer.has_cache_item(identifier)
        return self._producer is not None and self._producer.has_cache_item(identifier)

    def update_state_after_alloc(self, request: "Request", index: int) -> None:
        if self._consumer is not None:
            self._consumer.update_state_after_alloc(request, index)
        elif self._producer is not None:
            self._producer.update_state_after_alloc(request, index)

    def build_connector_meta(self, output: "SchedulerOutput") -> SluiceStepMetadata:
        meta = SluiceStepMetadata()
        if self._consumer is not None:
            meta.loads = self._consumer.build_loads(output)
        if self._producer is not None:
            meta.saves, republish = self._producer.build_saves(output)
            if self._is_producer:
                meta.republish = republish
        return meta

    def update_connector_output(self, output: "ECConnectorOutput") -> None:
        meta = output.ec_connector_worker_meta
        if not isinstance(meta, SluiceWorkerMetadata):
            return
        self._worker_counters.update(meta.counters)
        if self._consumer is not None:
            self._consumer.acknowledge(meta)

    def take_unavailable_requests(self) -> set[str]:
        return set() if self._consumer is None else self._consumer.take_unavailable_requests()

    def request_finished(self, request: "Request") -> tuple[bool, dict[str, Any] | None]:
        """Never True: vLLM would keep the request for ever on an engine without a KV connector."""
        if self._consumer is not None:
            self._consumer.request_finished(request)
        items = None
        if self._producer is not None:
            items = self._producer.request_finished(request)
        self._board.post()
        return False, items if self._is_producer else None

    def stats(self) -> SluiceECStats:
        """What this engine's processes counted since the last call."""
        sources: dict[object, dict[str, int]] = {"scheduler": self._counters.snapshot()}
        for rank, counters in self._roster.counters().items():
            sources[rank] = dict(counters)
        for rank, counters in self._worker_counters.items():
            sources[rank] = _newest(sources.get(rank, {}), counters)
        return self._growth.take(sources)

    def shutdown(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        if self._producer is not None:
            self._producer.close()
        self._pool.close()
        self._board.post()
        self._attachment.close()

    # --- inside ---

    def _start(self) -> None:
        self._attachment.listen(self._board.keep)
        self._attachment.listen(self._roster.refresh)
        self._attachment.start()
        client = self._attachment.client
        if client is None:
            return
        arena_bytes = int(client.stats()["arena_bytes"])
        others = cache_bytes_of_others(client, self._identity.engine)
        combinations.check_arena(arena_bytes, self._cache_bytes, others, self._settings)
        self._board.post()
        self._roster.refresh(client)

    def _record(self, vllm_config: "VllmConfig", keys: KeyTemplate) -> dict[str, Any]:
        """What `sluice doctor` compares between the engines of an arena."""
        transfer = vllm_config.ec_transfer_config
        assert transfer is not None
        return {
            "role": transfer.ec_role,
            "prefix": keys.prefix,
            "vllm": vllm.__version__,
            "widths": dict(transfer.mm_encoder_output_widths),
            "encoder_cache_bytes": self._cache_bytes,
            "on_failure": self._settings.on_failure,
        }


def _newest(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    """Counts only grow, so of two readings of one process the larger is the newer."""
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one.keys() | other.keys()}
