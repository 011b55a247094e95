"""Is this vLLM one the connector was made for?

A version that was not tested is said once. A hook that is missing, or takes other arguments, stops
start-up: a connector whose hooks are not called moves nothing, silently.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from sluice.vllm.settings import ConfigurationError

TESTED_VERSIONS = ("0.32.0",)

# Every method of vLLM's connector base that this connector overrides or calls: its parameters.
HOOKS: dict[str, tuple[str, ...]] = {
    "__init__": ("vllm_config", "role"),
    "shutdown": (),
    "bind_connector_metadata": ("connector_metadata",),
    "clear_connector_metadata": (),
    "start_load_caches": ("encoder_cache", "kwargs"),
    "start_save_caches": ("kwargs",),
    "save_caches": ("encoder_cache", "mm_hash", "kwargs"),
    "get_finished": ("finished_req_ids",),
    "build_connector_worker_meta": (),
    "get_ec_connector_stats": (),
    "has_cache_item": ("identifier",),
    "ensure_cache_available": ("request", "num_computed_tokens"),
    "take_unavailable_requests": (),
    "update_state_after_alloc": ("request", "index"),
    "update_state_after_free": ("request", "index"),
    "build_connector_meta": ("scheduler_output",),
    "update_connector_output": ("connector_output",),
    "request_finished": ("request",),
    "build_ec_connector_stats": ("data",),
    "build_prom_metrics": (
        "vllm_config",
        "metric_types",
        "labelnames",
        "per_engine_labelvalues",
    ),
}


def check_hooks(
    base: type, hooks: Mapping[str, tuple[str, ...]] = HOOKS, kind: str = "encoder-cache"
) -> None:
    """Raises ConfigurationError when a hook of `base` is missing or takes other parameters."""
    for name, expected in hooks.items():
        hook: Callable[..., Any] | None = getattr(base, name, None)
        if hook is None:
            raise ConfigurationError(f"this vLLM has no {kind} hook {name}(); {_supported_text()}")
        found = tuple(inspect.signature(hook).parameters)
        if found and found[0] == "self":
            found = found[1:]
        if found != expected:
            raise ConfigurationError(
                f"this vLLM's {kind} hook {name}() takes ({', '.join(found)}) where "
                f"({', '.join(expected)}) was expected; {_supported_text()}"
            )


def untested(version: str) -> str | None:
    """One sentence when this version was not tested, else None."""
    if version in TESTED_VERSIONS:
        return None
    return f"vLLM {version} was not tested with this connector; {_supported_text()}"


def _supported_text() -> str:
    return f"tested versions are {', '.join(TESTED_VERSIONS)}"
