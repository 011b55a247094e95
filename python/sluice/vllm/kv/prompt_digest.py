"""One digest over what decides a prompt's KV: its tokens, its media, its adapter.

Prefill and decode make it each from their own request; only equal digests meet.
"""

import hashlib
from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm.v1.request import Request


def prompt_digest(request: "Request") -> str | None:
    """32 hexadecimal digits. None for a prompt of embeddings, which no token names."""
    tokens = request.prompt_token_ids
    if tokens is None or request.prompt_embeds is not None:
        return None
    state = hashlib.sha256(b"sluice prompt 1\0")
    state.update(len(tokens).to_bytes(8, "little"))
    state.update(array("q", tokens).tobytes())
    for feature in request.mm_features:
        place = feature.mm_position
        state.update(f"{place.offset} {place.length} {feature.identifier}\0".encode())
    lora = request.lora_request
    if lora is not None:
        state.update(f"adapter {lora.lora_name}\0".encode())
    return state.hexdigest()[:32]
