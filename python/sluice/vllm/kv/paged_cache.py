"""This worker's paged KV cache: where its bytes lie, and how its layers form groups.

vLLM 0.32 shows every layer as (blocks, heads, tokens of a block, content) with any strides; content
holds K and V of one token and head, and what is inside is the attention backend's business.

Failure: ConfigurationError for a cache that cannot be handed off, naming why.
"""

from typing import TYPE_CHECKING

import torch
from vllm.model_executor.models.utils import extract_layer_index

from sluice import _core
from sluice.vllm.settings import ConfigurationError

if TYPE_CHECKING:
    from vllm.v1.kv_cache_interface import KVCacheConfig

_GROUPS = 4  # layer groups, unless the settings say otherwise


class PagedCache:
    """Keeps the tensors alive that the native cache borrows by address."""

    def __init__(
        self,
        tensors: dict[str, torch.Tensor],
        config: "KVCacheConfig",
        layout: str,
        layers_per_group: int,
    ) -> None:
        names = sorted(tensors, key=extract_layer_index)
        self._tensors = [tensors[name] for name in names]
        first = self._tensors[0]
        for name, tensor in zip(names, self._tensors, strict=True):
            _check(name, tensor, first)
        blocks, heads, tokens, content = first.shape
        if blocks % config.num_blocks:
            raise ConfigurationError(
                f"kv_connector: the cache has {blocks} blocks for the scheduler's "
                f"{config.num_blocks}"
            )
        self._split = int(
            blocks // config.num_blocks
        )  # the cache's blocks in one of the scheduler's
        self.layers = len(names)
        self.planes = 1
        self.heads = int(heads)
        self.block_tokens = int(tokens)
        self.entry_bytes = int(content) * first.element_size()
        self.dtype = str(first.dtype).removeprefix("torch.")
        self.layout = layout
        self.native = _core.KvCache(
            [_layer(tensor) for tensor in self._tensors],
            planes=self.planes,
            heads=self.heads,
            block_tokens=self.block_tokens,
            entry_bytes=self.entry_bytes,
        )
        size = layers_per_group or -(-self.layers // _GROUPS)
        self.groups = [
            (start, min(size, self.layers - start)) for start in range(0, self.layers, size)
        ]
        index = {name: place for place, name in enumerate(names)}
        # The group that is complete when this layer is.
        self.completes = {
            name: group
            for group, (start, count) in enumerate(self.groups)
            for name, place in index.items()
            if place == start + count - 1
        }

    def native_ids(self, block_ids: tuple[int, ...]) -> list[int]:
        """The cache's blocks of the scheduler's."""
        if self._split == 1:
            return list(block_ids)
        return [one * self._split + part for one in block_ids for part in range(self._split)]

    def native_count(self, blocks: int) -> int:
        return blocks * self._split


def _check(name: str, tensor: torch.Tensor, first: torch.Tensor) -> None:
    if tensor.device.type != "cpu":
        raise ConfigurationError(
            f"kv_connector: the KV cache lies on {tensor.device}; this build hands off caches in "
            "host memory only"
        )
    if tensor.dim() != 4:
        raise ConfigurationError(
            f'kv_connector: the cache of layer "{name}" has the shape {tuple(tensor.shape)}, not '
            "(blocks, heads, tokens, content)"
        )
    if tensor.shape != first.shape or tensor.dtype != first.dtype:
        raise ConfigurationError(
            f'kv_connector: the cache of layer "{name}" is {tuple(tensor.shape)} {tensor.dtype} '
            f"where the first layer's is {tuple(first.shape)} {first.dtype}"
        )
    if tensor.stride(3) != 1:
        raise ConfigurationError(
            f'kv_connector: the content of layer "{name}" is not contiguous in memory'
        )


def _layer(tensor: torch.Tensor) -> tuple[int, int, int, int, int, int, int]:
    """(address, bytes, blocks, plane stride, block stride, head stride, token stride)."""
    size = tensor.element_size()
    storage = tensor.untyped_storage()
    after = storage.nbytes() - tensor.storage_offset() * size
    block, head, token, _ = tensor.stride()
    return (
        tensor.data_ptr(),
        int(after),
        int(tensor.shape[0]),
        0,
        block * size,
        head * size,
        token * size,
    )
