"""Decode, scheduler side: which requests take their prompt from a hand-off, and when it is over.

Invariant: a request matches at most once; its load is given to the workers once and cancelled at
           most once. The hand-off is removed when its load or its request has ended or it turns
           out to be of no use, whichever is first, unless its parameters say that others read it.
Threads:   vLLM's scheduler thread. Nothing here waits.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllm.logger import init_logger

from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters
from sluice.vllm.kv.janitor import Janitor
from sluice.vllm.kv.metadata import LoadJob
from sluice.vllm.kv.params import DecodeParams, Malformed
from sluice.vllm.kv.prompt_digest import prompt_digest

if TYPE_CHECKING:
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks
    from vllm.v1.request import Request

logger = init_logger("vllm.sluice.kv.decode")


@dataclass(slots=True)
class _Wanted:
    params: DecodeParams
    tokens: int  # of the request's own prompt
    digest: str
    matched: bool = False
    loading: bool = False
    failed: bool = False
    released: bool = False
    blocks: frozenset[int] = frozenset()  # that are being loaded


class DecodePlanner:
    def __init__(
        self, attachment: Attachment, counters: Counters, janitor: Janitor, block_tokens: int
    ) -> None:
        self._attachment = attachment
        self._counters = counters
        self._janitor = janitor
        self._block_tokens = block_tokens
        self._wanted: dict[str, _Wanted] = {}  # by request
        self._loads: list[LoadJob] = []
        self._cancelled: list[str] = []
        self._said_mismatch = False

    def on_new_request(self, request: "Request", params: DecodeParams | Malformed) -> None:
        if isinstance(params, Malformed):
            self._fall_back(f"its parameters are malformed: {params}")
            return
        digest = prompt_digest(request)
        wanted = _Wanted(params, int(request.num_prompt_tokens), digest or "")
        problem = _difference(params, request, digest)
        if problem is None:
            self._wanted[request.request_id] = wanted
        else:
            self._fall_back(problem)
            self._release(wanted)

    def matched_tokens(self, request: "Request", computed: int) -> int:
        """Without side effects: the scheduler asks as often as it likes."""
        wanted = self._wanted.get(request.request_id)
        if wanted is None or wanted.matched or self._attachment.client is None:
            return 0
        return max(0, wanted.tokens - computed)

    def update_state_after_alloc(
        self, request: "Request", blocks: "KVCacheBlocks", external: int
    ) -> None:
        wanted = self._wanted.get(request.request_id)
        if wanted is None or wanted.matched:
            return
        wanted.matched = True
        if external == 0:  # the engine does not want it (prompt log-probabilities, no arena)
            self._fall_back(None)
            self._release(wanted)
            return
        params, whole = wanted.params, wanted.params.committed
        first = (wanted.tokens - external) // self._block_tokens
        end = -(-wanted.tokens // self._block_tokens)
        block_ids = tuple(blocks.get_block_ids()[0][first:end])
        wanted.loading = True
        wanted.blocks = frozenset(block_ids)
        self._counters.add("matches")
        self._loads.append(
            LoadJob(
                request.request_id,
                params.handoff,
                whole.generation if whole is not None else 0,
                whole.ranks if whole is not None else None,
                wanted.tokens,
                wanted.digest,
                first,
                block_ids,
            )
        )

    def build(self) -> tuple[list[LoadJob], list[str]]:
        """New loads, and loads nobody waits for any more."""
        loads, self._loads = self._loads, []
        cancelled, self._cancelled = self._cancelled, []
        return loads, cancelled

    def received(self, request_ids: Iterable[str], failed_blocks: set[int]) -> None:
        """Loads that every rank has answered for, and blocks that some rank could not fill."""
        if failed_blocks:
            for wanted in self._wanted.values():
                if wanted.loading and not wanted.failed and wanted.blocks & failed_blocks:
                    wanted.failed = True
                    self._fall_back(None)
        for request_id in request_ids:
            done = self._wanted.get(request_id)
            if done is not None and done.loading:
                done.loading = False
                self._release(done)

    def request_finished(self, request: "Request") -> None:
        """May be called twice for one request, and for one that was never scheduled."""
        wanted = self._wanted.pop(request.request_id, None)
        if wanted is None:
            return
        if wanted.loading:
            self._cancelled.append(request.request_id)
        self._release(wanted)

    def _release(self, wanted: _Wanted) -> None:
        if not wanted.released and not wanted.params.keep:
            self._janitor.release(wanted.params.handoff)
        wanted.released = True

    def _fall_back(self, why: str | None) -> None:
        self._counters.add("fallbacks")
        if why is not None and not self._said_mismatch:
            self._said_mismatch = True
            logger.error(
                "sluice: a prompt is computed here although it has a hand-off: %s; further ones "
                "are only counted",
                why,
            )


def _difference(params: DecodeParams, request: "Request", digest: str | None) -> str | None:
    """Why this hand-off is not of this request's prompt. One that is still written is compared when
    its commit is read.
    """
    if digest is None:
        return "a prompt of embeddings has no tokens to compare"
    whole = params.committed
    if whole is None:
        return None
    if whole.tokens != request.num_prompt_tokens:
        return (
            f"hand-off {params.handoff} is of a prompt of {whole.tokens} tokens, "
            f"this one has {request.num_prompt_tokens}"
        )
    if whole.digest != digest:
        return f"hand-off {params.handoff} is of the prompt {whole.digest}, this one is {digest}"
    return None
