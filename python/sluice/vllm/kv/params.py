"""`kv_transfer_params` of a request: what the proxy tells an engine, and what the engine answers.

Clients cannot send these (the proxy refuses them), but nothing here trusts their form.
"""

from dataclasses import dataclass
from typing import Any

from sluice import _core

RANKS_MAX = 1024  # tensor-parallel ranks of one engine


@dataclass(frozen=True, slots=True)
class PrefillParams:
    """Compute the prompt and hand its KV off under this name."""

    handoff: str


@dataclass(frozen=True, slots=True)
class Committed:
    """What prefill says of a hand-off that is whole."""

    generation: int
    tokens: int
    digest: str
    ranks: int


@dataclass(frozen=True, slots=True)
class DecodeParams:
    """Take the prompt's KV from this hand-off."""

    handoff: str
    committed: Committed | None  # None: prefill is still writing it
    keep: bool = False  # others will read it, or prefill still asks for it: who named it removes it


class Malformed(ValueError):
    """Parameters that ask for a hand-off and cannot be understood. One sentence."""


def parse(params: Any) -> PrefillParams | DecodeParams | None:
    """None: the request has nothing to do with a hand-off. Raises Malformed."""
    if not isinstance(params, dict):
        return None
    prefill, decode = params.get("do_remote_decode"), params.get("do_remote_prefill")
    if not prefill and not decode:
        return None
    handoff = params.get("sluice_handoff")
    if prefill and decode:
        raise Malformed("do_remote_decode and do_remote_prefill are both set")
    if not isinstance(handoff, str) or not _core.KvKeys.is_handoff_id(handoff):
        raise Malformed("sluice_handoff is not 32 lower-case hexadecimal digits")
    if prefill:
        return PrefillParams(handoff)
    if params.get("in_progress") is True:
        return DecodeParams(handoff, None, keep=True)
    return DecodeParams(handoff, _committed(params), params.get("keep") is True)


def _committed(params: dict[str, Any]) -> Committed:
    digest = params.get("digest")
    if not isinstance(digest, str) or not digest:
        raise Malformed("digest is missing")
    return Committed(
        _number(params, "generation", 0, (1 << 32) - 1),
        _number(params, "tokens", 1, (1 << 32) - 1),
        digest,
        _number(params, "ranks", 1, RANKS_MAX),
    )


def _number(params: dict[str, Any], name: str, least: int, most: int) -> int:
    value = params.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Malformed(f"{name} is not a whole number from {least} to {most}")
    return value


def committed(handoff: str, whole: Committed) -> dict[str, Any]:
    """What prefill answers, and decode is sent unchanged."""
    return {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "sluice_handoff": handoff,
        "generation": whole.generation,
        "tokens": whole.tokens,
        "digest": whole.digest,
        "ranks": whole.ranks,
    }


def not_committed(handoff: str, reason: str) -> dict[str, Any]:
    return {
        "do_remote_prefill": False,
        "do_remote_decode": False,
        "sluice_handoff": handoff,
        "reason": reason,
    }
