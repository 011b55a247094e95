"""Hashes that tell two models, or two configurations of one, apart.

weights:  over each weight file's name, size, first bytes and evenly spaced pages. Reading every
          byte of a large model would cost minutes at start-up; a change that misses all sampled
          pages of all files is not seen, so weights that are edited in place need the setting
          `revision`.
encoder:  over everything in the engine's configuration that changes what the encoder makes of the
          same input: the sub-configurations of the model, the processor files and the overrides.
Failure:  ConfigurationError naming the setting to give when something cannot be found out.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.vllm.settings import ConfigurationError

if TYPE_CHECKING:
    from vllm.config import ModelConfig

_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".gguf")
_PROCESSOR_FILES = (
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "processor_config.json",
)
_HEAD_BYTES = 1 << 20
_SAMPLES = 64
_SAMPLE_BYTES = 4096
_SNAPSHOT = re.compile(r"models--([^/]+)/snapshots/([0-9a-f]{40})/?$")

# Parts of a configuration that say how it is run here and not what it computes.
_VOLATILE = {
    "_name_or_path",
    "_attn_implementation",
    "_attn_implementation_internal",
    "_attn_implementation_autoset",
    "dtype",
    "torch_dtype",
    "transformers_version",
    "architectures",
}


def digest(value: Any) -> str:
    """32 hexadecimal digits over a JSON-like value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def model_name(model: str) -> str:
    """The full name: `owner/name` for a hub model also when it was resolved to its cache folder."""
    match = _SNAPSHOT.search(model)
    if match:
        return match.group(1).replace("--", "/")
    return os.path.realpath(model) if os.path.isdir(model) else model


def revision(model: str, asked: str | None) -> str:
    """The revision of a hub model, or the fingerprint of a folder's weights."""
    match = _SNAPSHOT.search(model)
    if match:
        return match.group(2)
    if os.path.isdir(model):
        return weights(Path(model))
    commit = _cached_commit(model, asked)
    if commit is not None:
        return commit
    raise ConfigurationError(
        f'the revision of model "{model}" cannot be found out; '
        'set "revision" in the connector\'s extra configuration, the same on every engine'
    )


def weights(folder: Path) -> str:
    files = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHT_SUFFIXES)
    if not files:
        raise ConfigurationError(
            f'the model folder "{folder}" holds no weight files; '
            'set "revision" in the connector\'s extra configuration, the same on every engine'
        )
    state = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        state.update(f"{path.name}\0{size}\0".encode())
        with path.open("rb") as file:
            state.update(file.read(_HEAD_BYTES))
            for offset in _sample_offsets(size):
                file.seek(offset)
                state.update(file.read(_SAMPLE_BYTES))
    return "weights-" + state.hexdigest()[:32]


def _sample_offsets(size: int) -> Iterable[int]:
    step = max(_SAMPLE_BYTES, size // _SAMPLES)
    yield from range(0, size, step)
    yield max(0, size - _SAMPLE_BYTES)


def encoder(model_config: "ModelConfig") -> str:
    multimodal = model_config.multimodal_config
    overrides: dict[str, Any] = {}
    if multimodal is not None:
        kwargs = dict(multimodal.mm_processor_kwargs or {})
        kwargs.pop("device", None)  # where it runs, not what it makes
        overrides = {
            "mm_processor_kwargs": kwargs,
            "media_io_kwargs": multimodal.media_io_kwargs or {},
            "encoder_attention_dtype": multimodal.mm_encoder_attn_dtype,
        }
    return digest(
        {
            "model": _encoder_configs(model_config.hf_config.to_dict()),
            "processor": _processor_files(model_config.model, model_config.revision),
            "quantization": model_config.quantization,
            "overrides": overrides,
        }
    )


def _encoder_configs(config: Mapping[str, Any]) -> Any:
    parts = {
        name: value
        for name, value in config.items()
        if name.endswith("_config")
        and isinstance(value, Mapping)
        and name not in ("text_config", "quantization_config")
    }
    return _stable(parts or config)


def _stable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _stable(v) for k, v in value.items() if k not in _VOLATILE}
    if isinstance(value, list | tuple):
        return [_stable(item) for item in value]
    return value


def _processor_files(model: str, asked: str | None) -> dict[str, Any]:
    found = {}
    for name in _PROCESSOR_FILES:
        path = os.path.join(model, name) if os.path.isdir(model) else _cached(model, name, asked)
        if path is not None and os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                found[name] = _stable(json.load(file))
    return found


def _cached(model: str, name: str, asked: str | None) -> str | None:
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(model, name, revision=asked)
    return path if isinstance(path, str) else None


def _cached_commit(model: str, asked: str | None) -> str | None:
    path = _cached(model, "config.json", asked)
    match = _SNAPSHOT.search(os.path.dirname(path)) if path else None
    return match.group(2) if match else None
