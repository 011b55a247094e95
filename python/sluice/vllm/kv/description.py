"""What this engine's KV is: everything of a hand-off's descriptor but the prompt.

Two engines exchange KV exactly when these agree (TP sizes may differ).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import vllm

from sluice import _core
from sluice.vllm import fingerprints
from sluice.vllm.kv.settings import KVSettings
from sluice.vllm.settings import ConfigurationError

if TYPE_CHECKING:
    from vllm.config import VllmConfig

    from sluice.vllm.kv.paged_cache import PagedCache


def layout_of(vllm_config: "VllmConfig", layers: Iterable[str]) -> str:
    """Who decides what lies inside a block's heads: attention backends, and the instruction set
    that those of CPUs pack keys for."""
    known = vllm_config.compilation_config.static_forward_context
    found = set()
    for name in layers:
        layer = known.get(name)
        backend = layer.get_attn_backend().get_name() if layer is not None else "unknown"
        found.add(f"{backend} {getattr(layer, 'isa', '')}".strip())
    return ", ".join(sorted(found))


class Description:
    """Makes descriptors. `cache`: this rank's, from which the shape is read."""

    def __init__(
        self, vllm_config: "VllmConfig", settings: KVSettings, cache: "PagedCache", ranks: int
    ) -> None:
        model_config = vllm_config.model_config
        model = str(model_config.model)
        self._ranks = ranks
        self._fields: dict[str, Any] = {
            "engine": f"vllm {vllm.__version__}",
            "model": settings.model or fingerprints.model_name(model),
            "revision": settings.revision or fingerprints.revision(model, model_config.revision),
            "dtype": cache.dtype,
            "layout": cache.layout,
            "layers": cache.layers,
            "heads_total": max(1, int(model_config.get_total_num_kv_heads())),
            "planes": cache.planes,
            "block_tokens": cache.block_tokens,
            "entry_bytes": cache.entry_bytes,
        }
        try:
            heads = self.of(rank=0, tokens=1, digest="").heads
        except _core.Error as error:
            raise ConfigurationError(f"kv_connector: {error}") from error
        if heads != cache.heads:
            raise ConfigurationError(
                f"kv_connector: the cache has {cache.heads} heads in a rank where the model's "
                f"{self._fields['heads_total']} KV heads make {heads}"
            )

    def of(
        self,
        *,
        rank: int,
        tokens: int,
        digest: str,
        parts: int = 1,
        ranks: int | None = None,
    ) -> "_core.KvDescriptor":
        return _core.KvDescriptor(
            **self._fields,
            rank=rank,
            ranks=self._ranks if ranks is None else ranks,
            tokens=tokens,
            digest=digest,
            parts=parts,
        )
