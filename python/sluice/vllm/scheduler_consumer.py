"""Consumer, scheduler side: which features may be promised to the engine, and until when to wait.

Invariant: `has_cache_item` says True only for an item of the request that is being scheduled, when
           its lease is held, its shape fits, its bytes are verified and every worker rank is
           attached to the same contents of the arena. Such a promise cannot fail.
           A metadata-only item without its feature never reaches the model: its request fails.
Threads:   the scheduler's; nothing here waits.
Failure:   no exception leaves a hook; each outcome has a counter.
"""

import enum
import time
from typing import TYPE_CHECKING

from vllm.logger import init_logger

from sluice import _core
from sluice.vllm.attachment import Attachment
from sluice.vllm.awaited_request import AwaitedRequest, announced_in
from sluice.vllm.counters import Counters
from sluice.vllm.item import Item, ItemState
from sluice.vllm.item_table import ItemTable
from sluice.vllm.loads import Loads
from sluice.vllm.mailbox import Roster
from sluice.vllm.media import MediaInspector, end_of, rows_of
from sluice.vllm.metadata import LoadSpec, SluiceWorkerMetadata
from sluice.vllm.settings import STORABLE_MODALITIES, Settings

if TYPE_CHECKING:
    from vllm.multimodal.inputs import MultiModalFeatureSpec
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.request import Request

logger = init_logger("vllm.sluice.consumer")

_PASS = object()  # holder: promised in the pass that is being made


class _Verdict(enum.Enum):
    GO = 1  # the request may be scheduled as far as this item goes
    WAIT = 2
    FAIL = 3


class SchedulerConsumer:
    def __init__(
        self,
        settings: Settings,
        attachment: Attachment,
        roster: Roster,
        media: MediaInspector,
        table: ItemTable,
        loads: Loads,
        counters: Counters,
    ) -> None:
        self._settings = settings
        self._attachment = attachment
        self._roster = roster
        self._media = media
        self._table = table
        self._loads = loads
        self._counters = counters
        self._requests: dict[str, AwaitedRequest] = {}
        self._offered: dict[str, Item] = {}  # what may be promised to the request at hand
        self._promised: dict[str, Item] = {}  # promised in this pass
        self._unavailable: set[str] = set()

    # --- one pass of the scheduler, in the order of its calls ---

    def ensure_cache_available(self, request: "Request", num_computed_tokens: int) -> bool:
        """False: ask again next pass. Called for every request with media, running ones too."""
        self._offered = {}
        features = request.mm_features
        if end_of(features[-1]) <= num_computed_tokens:
            self._past_media(request.request_id)
            return True
        awaited = self._awaited(request, num_computed_tokens)
        if awaited.failed:
            return False
        needed = {f.identifier: f for f in features if end_of(f) > num_computed_tokens}
        presences = self._look_up(awaited, needed)
        now = time.monotonic()
        verdicts = [
            self._judge(awaited, feature, presences.get(identifier, "absent"), now)
            for identifier, feature in needed.items()
        ]
        if _Verdict.FAIL in verdicts:
            self._offered = {}
            return False
        return _Verdict.WAIT not in verdicts

    def has_cache_item(self, identifier: str) -> bool:
        item = self._offered.get(identifier)
        if item is None:
            return False
        if identifier not in self._promised:
            self._promised[identifier] = item
            self._table.hold(item, _PASS)
        return True

    def update_state_after_alloc(self, request: "Request", index: int) -> None:
        """What this pass promised is loaded; everything else the engine encodes."""
        identifier = request.mm_features[index].identifier
        awaited = self._requests.get(request.request_id)
        if awaited is not None:
            awaited.allocated.add(identifier)
        item = self._offered.get(identifier)
        if item is None or identifier not in self._promised:
            self._counters.add("local_encodes")
            return
        self._loads.begin(item)

    def build_loads(self, output: "SchedulerOutput") -> dict[str, LoadSpec]:
        """Ends the pass: all promised loads that are not acknowledged."""
        self._loads.free(output.free_encoder_mm_hashes)
        if len(self._loads):
            self._loads.acknowledge(self._roster.acknowledged())
        for item in self._promised.values():
            self._table.let_go(item, _PASS)
        self._promised.clear()
        self._offered = {}
        specs = self._loads.specs()
        self._watch_boards(bool(specs))
        return specs

    # --- after the step ---

    def acknowledge(self, meta: SluiceWorkerMetadata) -> None:
        self._loads.acknowledge(meta.acknowledged)

    def take_unavailable_requests(self) -> set[str]:
        taken, self._unavailable = self._unavailable, set()
        return taken

    def request_finished(self, request: "Request") -> None:
        """Also for requests that were never scheduled, and more than once for the same one."""
        self._unavailable.discard(request.request_id)
        awaited = self._requests.pop(request.request_id, None)
        if awaited is not None:
            for item in awaited.held.values():
                self._table.let_go(item, awaited.request_id)
            awaited.held.clear()

    def close(self) -> None:
        self._table.close()

    # --- inside ---

    def _awaited(self, request: "Request", computed: int) -> AwaitedRequest:
        awaited = self._requests.get(request.request_id)
        if awaited is None:
            announced = announced_in(request.ec_transfer_params)
            awaited = AwaitedRequest(request.request_id, announced)
            self._requests[request.request_id] = awaited
        if computed < awaited.computed:  # preempted: what was allocated may be gone
            awaited.allocated.clear()
        awaited.computed = computed
        return awaited

    def _past_media(self, request_id: str) -> None:
        """All items are computed. What has media could be encoded again; references stay held."""
        awaited = self._requests.get(request_id)
        if awaited is None:
            return
        for identifier in [i for i in awaited.held if not awaited.references.get(i, True)]:
            self._release(awaited, identifier)

    def _look_up(
        self, awaited: AwaitedRequest, needed: "dict[str, MultiModalFeatureSpec]"
    ) -> dict[str, "_core.Presence"]:
        client = self._attachment.client
        if client is None:
            return {}
        unknown = [
            identifier
            for identifier, feature in needed.items()
            if self._table.get(identifier) is None and not self._settled(awaited, feature)
        ]
        return self._table.presences(client, unknown) if unknown else {}

    def _settled(self, awaited: AwaitedRequest, feature: "MultiModalFeatureSpec") -> bool:
        """The engine can do without a promise: the item has media and its place is decided."""
        identifier = feature.identifier
        if self._is_reference(awaited, feature):
            return False
        return identifier in awaited.local or identifier in awaited.allocated

    def _is_reference(self, awaited: AwaitedRequest, feature: "MultiModalFeatureSpec") -> bool:
        known = awaited.references.get(feature.identifier)
        if known is None:
            known = self._media.is_reference(feature)
            awaited.references[feature.identifier] = known
        return known

    def _judge(
        self,
        awaited: AwaitedRequest,
        feature: "MultiModalFeatureSpec",
        presence: "_core.Presence",
        now: float,
    ) -> _Verdict:
        if feature.modality not in STORABLE_MODALITIES:
            return _Verdict.GO
        if self._settled(awaited, feature):
            self._offer_again(awaited, feature.identifier)
            return _Verdict.GO
        reference = self._is_reference(awaited, feature)
        patience = (
            self._settings.wait_without_media_s if reference else self._settings.wait_with_media_s
        )
        deadline = awaited.deadlines.setdefault(feature.identifier, now + patience)
        obstacle = self._obstacle(awaited, feature, presence)
        if obstacle is None:
            return _Verdict.GO
        reason, passes = obstacle
        # A rank that is not attached costs a local encode less than a wait does.
        worth_waiting = passes and (reference or reason != "ranks")
        if worth_waiting and now < deadline:
            return _Verdict.WAIT
        return self._give_up(awaited, feature, "deadline" if worth_waiting else reason)

    def _obstacle(
        self, awaited: AwaitedRequest, feature: "MultiModalFeatureSpec", presence: "_core.Presence"
    ) -> tuple[str, bool] | None:
        """None: the item is offered. Else why not, and whether that may pass."""
        client = self._attachment.client
        if client is None:
            return "no_arena", False
        identifier = feature.identifier
        item = self._table.get(identifier)
        if item is None and presence == "present":
            item = self._table.open(client, identifier)
        if item is None:
            return "absent", presence == "pending" or identifier in awaited.announced
        if identifier not in awaited.held:
            awaited.held[identifier] = item
            self._table.hold(item, awaited.request_id)
        state = item.state()
        if state is ItemState.CHECKING:
            return "checking", True
        if state is ItemState.REFUSED:
            return self._refused(client, item), False
        if not item.fits(rows_of(feature), feature.modality):
            return "spec_mismatch", False
        if not self._roster.all_attached(item.boot):
            self._watch_boards(True)
            return "ranks", True
        if identifier not in awaited.hit:
            awaited.hit.add(identifier)
            self._counters.add("hits")
        self._offered[identifier] = item
        return None

    def _offer_again(self, awaited: AwaitedRequest, identifier: str) -> None:
        """The engine's cache has it, unless a preemption lost it: then it may be loaded again."""
        item = awaited.held.get(identifier)
        if item is not None and item.state() is ItemState.READY:
            self._offered[identifier] = item

    def _watch_boards(self, wanted: bool) -> None:
        if wanted and not self._roster.watching:
            self._attachment.wake()
        self._roster.watching = wanted

    def _refused(self, client: "_core.Client", item: Item) -> str:
        if not item.corrupt:
            return "spec_mismatch"
        self._table.discard(client, item)
        return "corrupt"

    def _give_up(
        self, awaited: AwaitedRequest, feature: "MultiModalFeatureSpec", reason: str
    ) -> _Verdict:
        identifier = feature.identifier
        if reason == "absent":
            self._counters.add("misses")
        self._release(awaited, identifier)
        if self._is_reference(awaited, feature) or self._settings.on_failure == "fail":
            self._counters.add(f"failed_{reason}")
            logger.warning(
                "sluice: request %s fails: the feature of item %.16s is not available (%s)",
                awaited.request_id,
                identifier,
                reason,
            )
            awaited.failed = True
            self._unavailable.add(awaited.request_id)
            return _Verdict.FAIL
        self._counters.add(f"fallback_{reason}")
        awaited.local.add(identifier)
        return _Verdict.GO

    def _release(self, awaited: AwaitedRequest, identifier: str) -> None:
        item = awaited.held.pop(identifier, None)
        if item is not None:
            self._table.let_go(item, awaited.request_id)
