"""Combinations of engine settings under which features could never move, or an engine would die.

Each check raises ConfigurationError with one sentence that names the setting. Start-up stops there.
"""

from typing import TYPE_CHECKING

import torch

from sluice.vllm.settings import ConfigurationError, Settings
from sluice.vllm.width import width_rule

if TYPE_CHECKING:
    from vllm.config import VllmConfig


def check(vllm_config: "VllmConfig", settings: Settings) -> None:
    """All checks that need no arena."""
    model = vllm_config.model_config
    transfer = vllm_config.ec_transfer_config
    assert transfer is not None
    multimodal = model.multimodal_config
    if multimodal is None:
        raise ConfigurationError(
            f'ec_connector: model "{model.model}" takes no media, so there are no features to move'
        )
    if model.is_encoder_decoder:
        raise ConfigurationError(
            f'ec_connector: "{model.model}" is an encoder-decoder model, whose encoder output vLLM '
            "does not keep in the encoder cache"
        )
    if multimodal.mm_processor_cache_gb == 0:
        raise ConfigurationError(
            "--mm-processor-cache-gb 0 names items by their position, so that no feature is ever "
            "found again; give it a value above 0"
        )
    if multimodal.mm_processor_cache_type == "shm":
        raise ConfigurationError(
            "--mm-processor-cache-type shm hides from the connector whether an item has media; "
            "use lru"
        )
    _check_tower(vllm_config)
    _check_lora(vllm_config)
    _check_roles(vllm_config, settings)
    _check_kv(vllm_config)


def _check_tower(vllm_config: "VllmConfig") -> None:
    """vLLM 0.32 builds a DeepStack model without its tower as one that takes no DeepStack levels:
    the first feature, several times as wide as it expects, would end the engine."""
    transfer = vllm_config.ec_transfer_config
    multimodal = vllm_config.model_config.multimodal_config
    assert transfer is not None
    assert multimodal is not None
    blind = all(multimodal.get_limit_per_prompt(m) == 0 for m in ("image", "video"))
    levels = width_rule(vllm_config.model_config).levels
    if transfer.is_ec_consumer and blind and levels is not None and levels > 1:
        raise ConfigurationError(
            "--limit-mm-per-prompt with image 0 and video 0 makes vLLM leave DeepStack out of "
            f'"{vllm_config.model_config.model}", so that it cannot take features; allow one of '
            "them, which loads the vision tower"
        )


def _check_lora(vllm_config: "VllmConfig") -> None:
    lora = vllm_config.lora_config
    if lora is not None and lora.enable_tower_connector_lora:
        raise ConfigurationError(
            "--enable-tower-connector-lora changes the encoder's output by adapters whose content "
            "the connector cannot know; turn it off"
        )


def _check_roles(vllm_config: "VllmConfig", settings: Settings) -> None:
    transfer = vllm_config.ec_transfer_config
    assert transfer is not None
    if (
        transfer.is_ec_consumer
        and vllm_config.scheduler_config.policy == "priority"
        and not settings.allow_priority_scheduling
    ):
        raise ConfigurationError(
            "--scheduling-policy priority: a preemption in the step that encodes an item leaves "
            'vLLM without it and ends the engine; use fcfs, or set "allow_priority_scheduling"'
        )
    if transfer.is_ec_producer and settings.store_local_encodes:
        raise ConfigurationError(
            'ec_connector_extra_config: "store_local_encodes" is for ec_role "ec_consumer"; '
            f'"{transfer.ec_role}" stores what it encodes anyway'
        )
    stores = transfer.is_ec_producer or settings.store_local_encodes
    if settings.soft_pin_modalities and not stores:
        raise ConfigurationError(
            'ec_connector_extra_config: "soft_pin_modalities" is a setting of producers; ec_role '
            f'is "{transfer.ec_role}"'
        )


def _check_kv(vllm_config: "VllmConfig") -> None:
    kv = vllm_config.kv_transfer_config
    if kv is not None and kv.is_kv_consumer and kv.kv_load_failure_policy == "fail":
        raise ConfigurationError(
            'kv_transfer_config: "kv_load_failure_policy" is "fail", so that a failed KV load '
            "fails its request although the features to compute it again are here; set it to "
            '"recompute"'
        )


def encoder_cache_bytes(vllm_config: "VllmConfig", width: int) -> int:
    """The most bytes this engine's encoder cache holds, for features `width` elements wide."""
    element = torch.empty(0, dtype=vllm_config.model_config.dtype).element_size()
    return int(vllm_config.scheduler_config.encoder_cache_size) * width * element


def check_arena(arena_bytes: int, own_bytes: int, others_bytes: int, settings: Settings) -> None:
    """An engine's cache may pin as much of the arena as it holds; so may those of the others."""
    if own_bytes + others_bytes > arena_bytes and not settings.allow_small_arena:
        raise ConfigurationError(
            f"the arena holds {_mib(arena_bytes)}, this engine's encoder cache up to "
            f"{_mib(own_bytes)} and those of its other engines up to {_mib(others_bytes)}; enlarge "
            'the arena, lower the encoder caches, or set "allow_small_arena" in '
            "ec_connector_extra_config"
        )


def _mib(amount: int) -> str:
    return f"{amount / (1 << 20):.0f} MiB"
