"""The connector's settings: what may stand in vLLM's `ec_connector_extra_config`.

Invariant: a `Settings` object is complete and valid; nothing else reads the raw dictionary.
Failure:   an unknown key, a wrong type or a value out of range raises `ConfigurationError` with one
           sentence that names the key and the nearest known one. Start-up stops there.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, cast

from sluice.vllm import checks

STORABLE_MODALITIES = ("image", "video", "audio")

# What other encoder-cache connectors call their settings: whose it is, and what to use here.
_FOREIGN_KEYS = {
    "shared_storage_path": ("ECExampleConnector", "directory"),
    "ec_cpu_bytes": ("ECCPUConnector", "arena"),
    "ec_enable_nixl": ("ECCPUConnector", "arena"),
    "consumer_ack_timeout_s": ("ECCPUConnector", "wait_without_media_s"),
    "cross_encoder_cache": ("ECMooncakeConnector", "arena"),
    "mooncake_protocol": ("ECMooncakeConnector", "arena"),
    "control_timeout_s": ("ECMooncakeConnector", "attach_timeout_s"),
    "push_wait_timeout_s": ("ECMooncakeConnector", "wait_with_media_s"),
    "store_max_pending_items": ("ECMooncakeConnector", "save_queue_items_max"),
    "store_max_pending_bytes": ("ECMooncakeConnector", "save_queue_items_max"),
    "store_read_buffer_bytes": ("ECMooncakeConnector", "pinned_share_max"),
    "embedding_cache_prefix": ("ECMooncakeConnector", "key_prefix"),
    "embedding_model_identity": ("ECMooncakeConnector", "model"),
}


class ConfigurationError(ValueError):
    """A configuration that cannot work. The text is one sentence for the operator."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything an operator may set. Times in seconds unless the name says otherwise."""

    # Which arena, and how to reach it.
    arena: str = "default"
    directory: str = ""  # the arena's folder itself; wins over the name
    attach_timeout_s: float = 2.0
    strict_daemon: bool = False  # True: no daemon at start-up is a start-up error

    # What the keys say. Empty: found out from the engine's configuration.
    tenant: str = "default"
    key_prefix: str = ""
    model: str = ""
    revision: str = ""
    encoder: str = ""

    # What happens when a feature does not come. A producer has no request left to fail when its
    # save fails: it answers `absent`, and who reads the answer decides.
    on_failure: Literal["fallback", "fail"] = "fallback"
    wait_with_media_s: float = 2.0
    wait_without_media_s: float = 10.0
    verify: Literal["once", "always"] = "once"

    # What a producer stores, and how.
    soft_pin_modalities: tuple[str, ...] = ()
    soft_pin_ttl_s: float = 600.0
    scan_nonfinite: bool = False
    store_local_encodes: bool = False  # a consumer stores what it had to encode itself
    reserve_timeout_s: float = 1.0  # for space, inside the step; a late daemon has 1 s more
    publish_timeout_s: float = 10.0  # for the daemon's answer, beside the engine's thread
    write_timeout_s: float = 60.0
    save_queue_items_max: int = 256

    # How much of the arena one engine's idle entries may pin before it copies them out.
    pinned_share_max: float = 0.25

    # Overrides of start-up checks.
    allow_priority_scheduling: bool = False
    allow_small_arena: bool = False

    @staticmethod
    def parse(extra: Mapping[str, Any]) -> "Settings":
        """Checks and types `ec_connector_extra_config`. Raises ConfigurationError."""
        known = {field.name for field in fields(Settings)}
        values: dict[str, Any] = {}
        for key, value in extra.items():
            if key not in known:
                raise ConfigurationError(_unknown(key, known))
            values[key] = _typed(key, value)
        return Settings(**values)


def _unknown(key: str, known: set[str]) -> str:
    if key in _FOREIGN_KEYS:
        owner, here = _FOREIGN_KEYS[key]
        return (
            f'ec_connector_extra_config: "{key}" is a setting of {owner}; '
            f'the nearest one of SluiceECConnector is "{here}"'
        )
    near = difflib.get_close_matches(str(key), sorted(known), n=1, cutoff=0.0)
    return f'ec_connector_extra_config: unknown key "{key}"; the nearest known one is "{near[0]}"'


def _typed(key: str, value: Any) -> Any:
    check = _CHECKS[key]
    problem = check(value)
    if problem is not None:
        raise ConfigurationError(f'ec_connector_extra_config: "{key}" {problem}, not {value!r}')
    if check is checks.seconds or check is checks.share:
        return float(value)
    if check is _modalities:
        return tuple(cast("list[str]", value))
    return value


def _modalities(value: Any) -> str | None:
    names = ", ".join(f'"{name}"' for name in STORABLE_MODALITIES)
    if isinstance(value, list | tuple) and all(item in STORABLE_MODALITIES for item in value):
        return None
    return f"must be a list of modalities out of {names}"


_CHECKS = {
    "arena": checks.name,
    "directory": checks.text,
    "attach_timeout_s": checks.seconds,
    "strict_daemon": checks.flag,
    "tenant": checks.name,
    "key_prefix": checks.text,
    "model": checks.text,
    "revision": checks.text,
    "encoder": checks.text,
    "on_failure": checks.on_failure,
    "wait_with_media_s": checks.seconds,
    "wait_without_media_s": checks.seconds,
    "verify": checks.verify,
    "soft_pin_modalities": _modalities,
    "soft_pin_ttl_s": checks.seconds,
    "scan_nonfinite": checks.flag,
    "store_local_encodes": checks.flag,
    "reserve_timeout_s": checks.seconds,
    "publish_timeout_s": checks.seconds,
    "write_timeout_s": checks.seconds,
    "save_queue_items_max": checks.count,
    "pinned_share_max": checks.share,
    "allow_priority_scheduling": checks.flag,
    "allow_small_arena": checks.flag,
}
