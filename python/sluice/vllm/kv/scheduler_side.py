"""The KV connector in the scheduler's process: wires the parts and dispatches by role.

Threads: vLLM's scheduler thread; the attachment's keeper and the janitor beside it.
"""

from typing import TYPE_CHECKING, Any

import vllm

from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters
from sluice.vllm.kv.board import Board
from sluice.vllm.kv.counts import COUNTS
from sluice.vllm.kv.identity import identity_of
from sluice.vllm.kv.janitor import Janitor
from sluice.vllm.kv.metadata import SluiceKVStepMetadata
from sluice.vllm.kv.metrics import Growth, SluiceKVStats
from sluice.vllm.kv.params import DecodeParams, Malformed, PrefillParams, parse
from sluice.vllm.kv.scheduler_decode import DecodePlanner
from sluice.vllm.kv.scheduler_prefill import PrefillPlanner
from sluice.vllm.kv.settings import KVSettings

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.outputs import KVConnectorOutput
    from vllm.v1.request import Request


class SchedulerSide:
    def __init__(self, vllm_config: "VllmConfig", settings: KVSettings, block_tokens: int) -> None:
        transfer = vllm_config.kv_transfer_config
        assert transfer is not None
        identity = identity_of(vllm_config, "scheduler")
        self._settings = settings
        self._counters = Counters(COUNTS)
        self._growth = Growth(self._counters)
        self._attachment = Attachment(settings, identity.label, self._counters)
        self._board = Board(self._attachment, identity, self._counters)
        self._board.state("record", {"role": transfer.kv_role, "vllm": vllm.__version__})
        self._janitor = Janitor(self._attachment, self._counters, settings.tenant)
        self._prefill: PrefillPlanner | None = None
        self._decode: DecodePlanner | None = None
        if transfer.is_kv_producer:
            self._prefill = PrefillPlanner(
                self._attachment, self._counters, identity, settings.tenant, block_tokens
            )
        if transfer.is_kv_consumer:
            self._decode = DecodePlanner(
                self._attachment, self._counters, self._janitor, block_tokens
            )
        self._attachment.listen(self._board.keep)
        try:
            self._attachment.start()
        except BaseException:
            self.shutdown()
            raise
        self._board.post()

    # --- hooks, as vLLM calls them ---

    def on_new_request(self, request: "Request") -> None:
        try:
            params = parse(request.kv_transfer_params)
        except Malformed as problem:
            self._malformed(request, problem)
            return
        if isinstance(params, PrefillParams) and self._prefill is not None:
            self._prefill.on_new_request(request, params)
        elif isinstance(params, DecodeParams) and self._decode is not None:
            self._decode.on_new_request(request, params)

    def get_num_new_matched_tokens(self, request: "Request", computed: int) -> tuple[int, bool]:
        tokens = self._decode.matched_tokens(request, computed) if self._decode is not None else 0
        return tokens, tokens > 0

    def update_state_after_alloc(
        self, request: "Request", blocks: "KVCacheBlocks", external: int
    ) -> None:
        if self._decode is not None:
            self._decode.update_state_after_alloc(request, blocks, external)

    def build_connector_meta(self, output: "SchedulerOutput") -> SluiceKVStepMetadata:
        meta = SluiceKVStepMetadata(idle=output.total_num_scheduled_tokens == 0)
        if self._prefill is not None:
            meta.saves, meta.ended = self._prefill.build(output)
        if self._decode is not None:
            meta.loads, meta.cancelled = self._decode.build()
        return meta

    def update_connector_output(self, output: "KVConnectorOutput") -> None:
        if self._decode is not None:
            self._decode.received(output.finished_recving or (), output.invalid_block_ids)

    def request_finished(self, request: "Request") -> tuple[bool, dict[str, Any] | None]:
        """Never True: nothing reads the request's blocks any more."""
        if self._decode is not None:
            self._decode.request_finished(request)
        answer = self._prefill.request_finished(request) if self._prefill is not None else None
        self._board.post()
        return False, answer

    def stats(self) -> SluiceKVStats | None:
        return self._growth.take()

    def shutdown(self) -> None:
        self._janitor.close(self._settings.attach_timeout_s)
        self._board.post()
        self._attachment.close()

    # --- inside ---

    def _malformed(self, request: "Request", problem: Malformed) -> None:
        prefill = bool(
            request.kv_transfer_params and request.kv_transfer_params.get("do_remote_decode")
        )
        if prefill and self._prefill is not None:
            self._prefill.on_new_request(request, problem)
        elif self._decode is not None:
            self._decode.on_new_request(request, problem)
