"""Producer, scheduler side: what the writing rank must store, and what the answer may claim.

Invariant: every item of a scheduled request is listed once: in `saves` on the step that encodes it,
           in `republish` on the first step that computes its place without encoding it. An item
           that was not encoded because the arena has it stays leased until vLLM frees its entry;
           when another arena has taken the place of that one, it is republished there and leased
           anew.
           `request_finished` asks the arena; it never answers from memory.
Threads:   the scheduler's; look-ups are wait-free, nothing here waits.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vllm.logger import init_logger

from sluice import _core
from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters
from sluice.vllm.key_template import KeyTemplate
from sluice.vllm.media import MediaInspector, end_of, rows_of
from sluice.vllm.metadata import SaveSpec

if TYPE_CHECKING:
    from vllm.multimodal.inputs import MultiModalFeatureSpec
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.request import Request

logger = init_logger("vllm.sluice.producer")

_STATES = {"present": "published", "pending": "writing", "absent": "absent"}


@dataclass(slots=True)
class _Produced:
    request: "Request"
    computed: int = 0  # where the step that is being planned starts
    listed: set[int] = field(default_factory=set)  # indices of items told to the workers


@dataclass(frozen=True, slots=True)
class _Kept:
    lease: "_core.Lease"
    rows: int
    boot: int  # of the arena that the lease is in


class SchedulerProducer:
    def __init__(
        self,
        attachment: Attachment,
        keys: KeyTemplate,
        media: MediaInspector,
        counters: Counters,
        skips_encodes: bool,
        cache_rows: int,
    ) -> None:
        """`skips_encodes`: an item that the arena has is not encoded (encode-only engines).

        `cache_rows`: how many rows the engine's encoder cache holds, and so how many kept items.
        """
        self._attachment = attachment
        self._keys = keys
        self._media = media
        self._counters = counters
        self._skips_encodes = skips_encodes
        self._requests: dict[str, _Produced] = {}
        self._rows: dict[str, int] = {}  # of the request at hand, by identifier
        self._cache_rows = cache_rows
        # Of items not encoded, until vLLM frees them; last promised last.
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def ensure_cache_available(self, request: "Request", num_computed_tokens: int) -> bool:
        """Notes the request; a producer never defers one."""
        produced = self._requests.get(request.request_id)
        if produced is None:
            produced = self._requests[request.request_id] = _Produced(request)
        if num_computed_tokens < produced.computed:  # preempted: its items come again
            produced.listed.clear()
        produced.computed = num_computed_tokens
        if self._skips_encodes:
            self._rows = {f.identifier: rows_of(f) for f in request.mm_features}
        return True

    def has_cache_item(self, identifier: str) -> bool:
        if not self._skips_encodes or identifier not in self._rows:
            return False
        if self._keep(identifier, self._rows[identifier]):
            self._kept.move_to_end(identifier)
            self._forget_reset_entries()
            return True
        if identifier in self._kept and not self._is_present(self._kept[identifier]):
            self._kept.pop(identifier).lease.release()  # it will be encoded
        return False

    def update_state_after_alloc(self, request: "Request", index: int) -> None:
        if request.mm_features[index].identifier in self._kept:
            self._counters.add("encodes_skipped")

    def build_saves(
        self, output: "SchedulerOutput"
    ) -> tuple[dict[str, SaveSpec], dict[str, SaveSpec]]:
        """(saves, republish) of this step."""
        for identifier in output.free_encoder_mm_hashes:
            kept = self._kept.pop(identifier, None)
            if kept is not None:
                kept.lease.release()
        saves: dict[str, SaveSpec] = {}
        republish: dict[str, SaveSpec] = {}
        for request_id, tokens in output.num_scheduled_tokens.items():
            produced = self._requests.get(request_id)
            if produced is None:
                continue
            encoded = set(output.scheduled_encoder_inputs.get(request_id, ()))
            for index, feature in enumerate(produced.request.mm_features):
                if index in produced.listed or not self._concerned(feature):
                    continue
                if index in encoded:
                    saves[feature.identifier] = self._media.save_spec(feature)
                elif self._computes(produced, feature, tokens) and not self._is_kept(feature):
                    republish[feature.identifier] = self._media.save_spec(feature)
                else:
                    continue
                produced.listed.add(index)
        for identifier in saves:
            republish.pop(identifier, None)
        return saves, republish

    def request_finished(self, request: "Request") -> dict[str, Any] | None:
        """Per item `state` (published, writing, absent), `item_indices` and, unless it is absent,
        the placeholder `metadata` that lets a consumer do without the media."""
        self._requests.pop(request.request_id, None)
        if not request.mm_features:
            return None
        items = self._media.response_items(request.mm_features)
        rows = {f.identifier: rows_of(f) for f in request.mm_features}
        states = self._states(rows)
        for identifier, entry in items.items():
            entry["state"] = states[identifier]
            if entry["state"] == "absent":
                del entry["metadata"]
        return items

    def close(self) -> None:
        for kept in self._kept.values():
            kept.lease.release()
        self._kept.clear()

    def _keep(self, identifier: str, rows: int) -> bool:
        """Is the item, with so many rows, in the present arena, and leased there from now on?"""
        kept = self._kept.get(identifier)
        if kept is not None and self._is_present(kept):
            return kept.rows == rows
        client = self._attachment.client
        lease = self._acquire(client, identifier)
        if client is None or lease is None:
            return False
        if not _has_rows(lease, rows):
            lease.release()
            return False
        if kept is not None:
            kept.lease.release()
        self._kept[identifier] = _Kept(lease, rows, client.boot)
        return True

    def _is_present(self, kept: _Kept) -> bool:
        client = self._attachment.client
        return client is not None and client.boot == kept.boot

    def _forget_reset_entries(self) -> None:
        """A reset of vLLM's encoder cache names no entries: what cannot fit in it is long gone."""
        rows = sum(kept.rows for kept in self._kept.values())
        while rows > self._cache_rows and len(self._kept) > 1:
            _, kept = self._kept.popitem(last=False)
            rows -= kept.rows
            kept.lease.release()

    def _concerned(self, feature: "MultiModalFeatureSpec") -> bool:
        return self._media.is_storable(feature)

    def _computes(self, produced: _Produced, feature: "MultiModalFeatureSpec", tokens: int) -> bool:
        """Does this step compute a place of the item?"""
        start = feature.mm_position.offset
        return start < produced.computed + tokens and end_of(feature) > produced.computed

    def _is_kept(self, feature: "MultiModalFeatureSpec") -> bool:
        identifier = feature.identifier
        return identifier in self._kept and self._keep(identifier, rows_of(feature))

    def _states(self, rows: dict[str, int]) -> dict[str, str]:
        states = dict.fromkeys(rows, "absent")
        client = self._attachment.client
        if client is None:
            return states
        keys = {}
        for identifier in rows:
            try:
                keys[identifier] = self._keys.key(identifier)
            except _core.InvalidArgument:
                continue
        try:
            found = client.lookup_many(list(keys.values()))
        except _core.Error as error:
            logger.warning("sluice: look-up: %s", error)
            return states
        for identifier, presence in zip(keys, found, strict=True):
            states[identifier] = _STATES[presence]
            if presence == "present" and not self._is_ours(identifier, rows[identifier]):
                states[identifier] = "absent"
        return states

    def _is_ours(self, identifier: str, rows: int) -> bool:
        """The stored feature has this item's shape: the same identifier may name another medium."""
        lease = self._acquire(self._attachment.client, identifier)
        if lease is None:
            return False
        with lease:
            return _has_rows(lease, rows)

    def _acquire(self, client: "_core.Client | None", identifier: str) -> "_core.Lease | None":
        if client is None:
            return None
        try:
            return client.acquire(self._keys.key(identifier))
        except _core.Error:
            return None


def _has_rows(lease: "_core.Lease", rows: int) -> bool:
    try:
        tensors = lease.tensors
    except _core.Error:
        return False
    return len(tensors) == 1 and len(tensors[0].shape) == 2 and tensors[0].shape[0] == rows
