"""Connectors between vLLM and a Sluice arena.

Nothing of vLLM or of the native module is imported before a connector is asked for, so that
importing or installing this package changes nothing in an engine that does not use it.

vLLM finds the connector by module path:

    --ec-transfer-config '{"ec_connector": "SluiceECConnector",
                           "ec_connector_module_path": "sluice.vllm",
                           "ec_role": "ec_producer" | "ec_consumer" | "ec_both",
                           "ec_connector_extra_config": {"arena": "default"}}'
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluice.vllm.connector import SluiceECConnector

__all__ = ["SluiceECConnector"]


def __getattr__(name: str) -> Any:
    if name == "SluiceECConnector":
        from sluice.vllm.connector import SluiceECConnector

        return SluiceECConnector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
