"""Connectors between vLLM and a Sluice arena.

Nothing of vLLM or of the native module is imported before a connector is asked for, so that
importing or installing this package changes nothing in an engine that does not use it.

vLLM finds the connectors by module path:

    --ec-transfer-config '{"ec_connector": "SluiceECConnector",
                           "ec_connector_module_path": "sluice.vllm",
                           "ec_role": "ec_producer" | "ec_consumer" | "ec_both",
                           "ec_connector_extra_config": {"arena": "default"}}'
    --kv-transfer-config '{"kv_connector": "SluiceKVConnector",
                           "kv_connector_module_path": "sluice.vllm",
                           "kv_role": "kv_producer" | "kv_consumer" | "kv_both",
                           "kv_load_failure_policy": "recompute",
                           "kv_connector_extra_config": {"arena": "default"}}'
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluice.vllm.connector import SluiceECConnector
    from sluice.vllm.kv.connector import SluiceKVConnector

__all__ = ["SluiceECConnector", "SluiceKVConnector"]


def __getattr__(name: str) -> Any:
    if name == "SluiceECConnector":
        from sluice.vllm.connector import SluiceECConnector

        return SluiceECConnector
    if name == "SluiceKVConnector":
        from sluice.vllm.kv.connector import SluiceKVConnector

        return SluiceKVConnector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
