"""The key of a feature: everything but the item's identifier is the engine's, made once.

Two engines exchange features exactly when their templates are equal; `sluice doctor` compares the
prefixes that engines post.
"""

from typing import TYPE_CHECKING

from sluice import _core
from sluice.vllm import fingerprints, tensors
from sluice.vllm.settings import ConfigurationError, Settings

if TYPE_CHECKING:
    from vllm.config import VllmConfig


class KeyTemplate:
    """Makes keys. `dtype` is the arena's name of the stored features' dtype."""

    def __init__(self, vllm_config: "VllmConfig", settings: Settings) -> None:
        model_config = vllm_config.model_config
        dtype = tensors.dtype_name(model_config.dtype)
        if dtype is None:
            raise ConfigurationError(
                f"features of dtype {model_config.dtype} cannot be stored; start with --dtype "
                "bfloat16, float16 or float32"
            )
        self.dtype = dtype
        model = str(model_config.model)
        revision = settings.revision or fingerprints.revision(model, model_config.revision)
        try:
            self._first = _core.ObjectKey(
                "template",
                model=settings.model or fingerprints.model_name(model),
                revision=revision,
                encoder=settings.encoder or fingerprints.encoder(model_config),
                dtype=dtype,
                prefix=settings.key_prefix,
                tenant=settings.tenant,
            )
        except _core.InvalidArgument as error:
            raise ConfigurationError(f"the engine's key cannot be made: {error}") from error

    @property
    def prefix(self) -> str:
        """What all keys of this engine begin with."""
        return self._first.prefix_text

    def key(self, identifier: str) -> "_core.ObjectKey":
        """Raises _core.InvalidArgument for an empty or oversized identifier."""
        return self._first.with_id(identifier)
