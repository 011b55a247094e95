"""The connector's settings: what may stand in vLLM's `kv_connector_extra_config`.

Invariant: a `KVSettings` object is complete and valid; nothing else reads the raw dictionary.
Failure:   an unknown key, a wrong type or a value out of range raises `ConfigurationError` with one
           sentence that names the key and the nearest known one. Start-up stops there.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from sluice.vllm import checks
from sluice.vllm.settings import ConfigurationError


@dataclass(frozen=True, slots=True)
class KVSettings:
    """Everything an operator may set. Times in seconds."""

    # Which arena, and how to reach it.
    arena: str = "default"
    directory: str = ""  # the arena's folder itself; wins over the name
    attach_timeout_s: float = 2.0
    strict_daemon: bool = False  # True: no daemon at start-up is a start-up error

    # Whose KV this is. Empty: found out from the engine's configuration.
    tenant: str = "default"
    model: str = ""
    revision: str = ""

    # What happens when a hand-off does not come: compute the prompt here, or fail the request.
    on_failure: Literal["fallback", "fail"] = "fallback"
    verify: Literal["once", "always"] = "once"

    # Prefill.
    layers_per_group: int = 0  # 0: about four groups
    reserve_timeout_s: float = 0.5  # for space; a late daemon has a second more
    publish_timeout_s: float = 5.0  # for the daemon's answer, beside the engine's thread
    write_timeout_s: float = 60.0
    save_timeout_s: float = 2.0  # at most, that a step waits for its blocks to be read
    handoff_ttl_s: float = 120.0  # that parts are kept for a reader

    # Decode.
    load_timeout_s: float = 10.0

    @staticmethod
    def parse(extra: Mapping[str, Any]) -> "KVSettings":
        """Checks and types `kv_connector_extra_config`. Raises ConfigurationError."""
        known = {field.name for field in fields(KVSettings)}
        values: dict[str, Any] = {}
        for key, value in extra.items():
            if key not in known:
                near = difflib.get_close_matches(str(key), sorted(known), n=1, cutoff=0.0)
                raise ConfigurationError(
                    f'kv_connector_extra_config: unknown key "{key}"; '
                    f'the nearest known one is "{near[0]}"'
                )
            values[key] = _typed(key, value)
        return KVSettings(**values)


def _typed(key: str, value: Any) -> Any:
    check = _CHECKS[key]
    problem = check(value)
    if problem is not None:
        raise ConfigurationError(f'kv_connector_extra_config: "{key}" {problem}, not {value!r}')
    return float(value) if check is checks.seconds else value


def _layers(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 4096:
        return None
    return "must be a whole number from 0 to 4096"


_CHECKS = {
    "arena": checks.name,
    "directory": checks.text,
    "attach_timeout_s": checks.seconds,
    "strict_daemon": checks.flag,
    "tenant": checks.name,
    "model": checks.text,
    "revision": checks.text,
    "on_failure": checks.on_failure,
    "verify": checks.verify,
    "layers_per_group": _layers,
    "reserve_timeout_s": checks.seconds,
    "publish_timeout_s": checks.seconds,
    "write_timeout_s": checks.seconds,
    "save_timeout_s": checks.seconds,
    "handoff_ttl_s": checks.seconds,
    "load_timeout_s": checks.seconds,
}
