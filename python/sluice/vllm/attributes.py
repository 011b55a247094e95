"""Small typed values stored beside a feature: modality, row count, and what sizes its placeholder.

Limits: vLLM's placeholder metadata is a list of numbers per name; anything else is kept as JSON.
"""

import json
from collections.abc import Mapping
from typing import Any

AttributeValue = str | list[int] | list[float]


def of_feature(
    modality: str, rows: int, placeholder: Mapping[str, Any]
) -> dict[str, AttributeValue]:
    """The attributes of one feature: `placeholder` is vLLM's metadata of the item."""
    out: dict[str, AttributeValue] = {"modality": modality, "rows": [rows]}
    for name, value in placeholder.items():
        out[name] = _value(value)
    return out


def _value(value: Any) -> AttributeValue:
    if isinstance(value, list) and value:
        if all(type(item) is int for item in value):
            return value
        if all(isinstance(item, int | float) and not isinstance(item, bool) for item in value):
            return [float(item) for item in value]
    return json.dumps(value)
