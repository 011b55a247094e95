"""Prefill, scheduler side: which blocks of which request are complete after each step.

Invariant: in one generation the jobs of a request follow each other without gap or overlap, from
           block 0 on (blocks found in the prefix cache included), and the final one ends with the
           prompt. A request that is computed again from an earlier place begins a new generation.
Threads:   vLLM's scheduler thread. Nothing here waits.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vllm.v1.request import RequestStatus

from sluice import _core
from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters
from sluice.vllm.kv.board import reason_of
from sluice.vllm.kv.identity import Identity
from sluice.vllm.kv.metadata import SaveJob
from sluice.vllm.kv.params import Committed, Malformed, PrefillParams, committed, not_committed
from sluice.vllm.kv.prompt_digest import prompt_digest

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.request import Request


@dataclass(slots=True)
class _Handoff:
    name: str
    tokens: int
    digest: str
    problem: str = ""  # why there will be none
    generation: int = 0
    computed: int = 0  # tokens, after the last step that was planned
    sent_blocks: int = 0
    final_sent: bool = False


class PrefillPlanner:
    def __init__(
        self,
        attachment: Attachment,
        counters: Counters,
        identity: Identity,
        tenant: str,
        block_tokens: int,
    ) -> None:
        self._attachment = attachment
        self._counters = counters
        self._identity = identity
        self._tenant = tenant
        self._block_tokens = block_tokens
        self._handoffs: dict[str, _Handoff] = {}  # by request
        self._ended: dict[str, bool] = {}

    def on_new_request(self, request: "Request", params: PrefillParams | Malformed) -> None:
        self._counters.add("handoffs")
        digest = prompt_digest(request)
        problem = ""
        name = ""
        if isinstance(params, Malformed):
            problem = f"the hand-off's parameters are malformed: {params}"
        else:
            name = params.handoff
            if digest is None:
                problem = "a prompt of embeddings has no tokens to compare and is not handed off"
            elif self._attachment.client is None:
                problem = "no daemon serves the arena"
        self._handoffs[request.request_id] = _Handoff(
            name, request.num_prompt_tokens, digest or "", problem
        )

    def build(self, output: "SchedulerOutput") -> tuple[list[SaveJob], dict[str, bool]]:
        """Jobs of this step, and hand-offs whose requests have ended (committed or not)."""
        ended, self._ended = self._ended, {}
        if not self._handoffs:
            return [], ended
        jobs = []
        for new in output.scheduled_new_reqs:
            jobs += self._plan(output, new.req_id, new.num_computed_tokens, resumed=False)
        cached = output.scheduled_cached_reqs
        for request_id, computed in zip(cached.req_ids, cached.num_computed_tokens, strict=True):
            resumed = request_id in cached.resumed_req_ids
            jobs += self._plan(output, request_id, computed, resumed=resumed)
        return jobs, ended

    def request_finished(self, request: "Request") -> dict[str, Any] | None:
        """What the engine answers; None where the request asked for no hand-off or was aborted."""
        handoff = self._handoffs.pop(request.request_id, None)
        if handoff is None:
            return None
        complete = request.status in (
            RequestStatus.FINISHED_STOPPED,
            RequestStatus.FINISHED_LENGTH_CAPPED,
        )
        reason = self._reason(handoff) if complete else "the request ended before its prompt did"
        if handoff.name:
            self._ended[handoff.name] = not reason
        if reason:
            self._counters.add("uncommitted", int(complete))
            return not_committed(handoff.name, reason) if complete else None
        whole = Committed(handoff.generation, handoff.tokens, handoff.digest, self._identity.ranks)
        return committed(handoff.name, whole)

    # --- inside ---

    def _plan(
        self, output: "SchedulerOutput", request_id: str, computed: int, *, resumed: bool
    ) -> list[SaveJob]:
        handoff = self._handoffs.get(request_id)
        if handoff is None or handoff.problem or handoff.final_sent:
            return []
        if handoff.sent_blocks and (resumed or computed < handoff.computed):
            self._counters.add("restarts")
            handoff.generation += 1
            handoff.sent_blocks = 0
        handoff.computed = computed + output.num_scheduled_tokens[request_id]
        final = handoff.computed >= handoff.tokens
        blocks = handoff.computed // self._block_tokens
        if final:
            blocks = -(-handoff.tokens // self._block_tokens)
        if blocks <= handoff.sent_blocks:
            return []
        state = output.kv_connector_block_state
        table = state.get_block_ids(request_id) if state is not None else None
        if table is None or len(table) != 1 or len(table[0]) < blocks:
            handoff.problem = "the engine does not say where the prompt's blocks are"
            return []
        job = SaveJob(
            handoff.name,
            handoff.generation,
            handoff.sent_blocks,
            tuple(table[0][handoff.sent_blocks : blocks]),
            final,
            handoff.tokens,
            handoff.digest,
        )
        handoff.sent_blocks = blocks
        handoff.final_sent = final
        return [job]

    def _reason(self, handoff: _Handoff) -> str:
        """Why the arena has no complete hand-off; empty: it has."""
        if handoff.problem:
            return handoff.problem
        if not handoff.final_sent:
            return "the prompt was not computed to its end"
        client = self._attachment.client
        if client is None:
            return "no daemon serves the arena"
        keys = _core.KvKeys(self._tenant, handoff.name)
        commits = [keys.commit(handoff.generation, rank) for rank in range(self._identity.ranks)]
        missing = [
            rank for rank, found in enumerate(client.lookup_many(commits)) if found != "present"
        ]
        if not missing:
            return ""
        said = reason_of(client, self._identity, handoff.name)
        return said or f"rank {missing[0]} has not committed its part"
