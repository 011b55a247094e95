"""What an item of a request is: media that can be encoded here, or a reference to a feature.

A reference (metadata-only item) carries only what sizes its placeholder, for instance a grid. There
is nothing to encode: without its feature it must never reach the model.
"""

from typing import TYPE_CHECKING, Any

from vllm.distributed.ec_transfer.ec_connector.utils import (
    PlaceholderMetadataResolver,
    collect_ec_item_metadata,
)

from sluice.vllm import attributes
from sluice.vllm.metadata import SaveSpec
from sluice.vllm.settings import STORABLE_MODALITIES

if TYPE_CHECKING:
    from vllm.config import ModelConfig
    from vllm.multimodal.inputs import MultiModalFeatureSpec


class MediaInspector:
    """Reads vLLM's feature records. Scheduler process only, its one thread."""

    def __init__(self, model_config: "ModelConfig") -> None:
        self._resolver = PlaceholderMetadataResolver(model_config)

    def is_reference(self, feature: "MultiModalFeatureSpec") -> bool:
        """True when the item holds nothing that could be encoded here."""
        if feature.data is None:
            return True
        return bool(set(feature.data.keys()) <= self._resolver.fields_for(feature.modality))

    def is_storable(self, feature: "MultiModalFeatureSpec") -> bool:
        """True when the encoder makes this item's feature, so that it may be stored.

        Unknown modalities, `prompt_embeds` and embeddings that came with the request are not.
        """
        if feature.modality not in STORABLE_MODALITIES or self.is_reference(feature):
            return False
        assert feature.data is not None
        return f"{feature.modality}_embeds" not in feature.data

    def save_spec(self, feature: "MultiModalFeatureSpec") -> SaveSpec:
        placeholder = self.response_items([feature])[feature.identifier]["metadata"]
        rows = feature.mm_position.get_num_embeds()
        return SaveSpec(
            rows, feature.modality, attributes.of_feature(feature.modality, rows, placeholder)
        )

    def response_items(self, features: "list[MultiModalFeatureSpec]") -> dict[str, dict[str, Any]]:
        """By identifier: `item_indices` and the placeholder `metadata`, as vLLM reports them."""
        items: dict[str, dict[str, Any]] = collect_ec_item_metadata(features, self._resolver)
        return items


def rows_of(feature: "MultiModalFeatureSpec") -> int:
    return int(feature.mm_position.get_num_embeds())


def end_of(feature: "MultiModalFeatureSpec") -> int:
    """The position after the item's last placeholder token."""
    return int(feature.mm_position.offset + feature.mm_position.length)
