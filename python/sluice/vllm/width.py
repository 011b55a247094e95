"""How wide the features of a model are, from its configuration."""

from typing import TYPE_CHECKING, Any

from sluice.vllm import tensors
from sluice.vllm.item import WidthRule

if TYPE_CHECKING:
    from vllm.config import ModelConfig


def width_rule(model_config: "ModelConfig") -> WidthRule:
    dtype = tensors.dtype_name(model_config.dtype) or str(model_config.dtype)
    indexes = _deepstack_indexes(model_config.hf_config)
    levels = None if indexes is None else 1 + len(indexes)
    return WidthRule(model_config.get_inputs_embeds_size(), levels, dtype)


def _deepstack_indexes(config: Any) -> list[int] | None:
    vision = getattr(config, "vision_config", None)
    if vision is None:
        vision = getattr(getattr(config, "thinker_config", None), "vision_config", None)
    indexes = getattr(vision, "deepstack_visual_indexes", None)
    return list(indexes) if isinstance(indexes, list | tuple) else None
