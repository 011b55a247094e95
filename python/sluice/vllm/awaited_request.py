"""What the consumer's scheduler remembers of one request that has media."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.vllm.item import Item


@dataclass(slots=True)
class AwaitedRequest:
    request_id: str
    announced: frozenset[str]  # identifiers that the encoder's answer calls `writing`
    deadlines: dict[str, float] = field(default_factory=dict)  # time.monotonic(), by identifier
    references: dict[str, bool] = field(default_factory=dict)  # is the item metadata-only?
    held: dict[str, Item] = field(default_factory=dict)  # leases kept for this request
    local: set[str] = field(default_factory=set)  # given up: the engine encodes these
    allocated: set[str] = field(default_factory=set)  # the engine's cache has or will have these
    hit: set[str] = field(default_factory=set)  # counted as found
    computed: int = 0  # highest position seen computed
    failed: bool = False


def announced_in(params: Mapping[str, Any] | None) -> frozenset[str]:
    """The identifiers that `ec_transfer_params` calls `writing`. Anything malformed is ignored."""
    if not isinstance(params, Mapping):
        return frozenset()
    return frozenset(
        identifier
        for identifier, entry in params.items()
        if isinstance(entry, Mapping) and entry.get("state") == "writing"
    )
