"""Two small vision-language models with random weights: Qwen2.5-VL, and Qwen3-VL with DeepStack.

They have the real architectures, the real image processors and a byte-level tokenizer, so a real
engine serves them; their answers mean nothing. Weights are scaled up after initialisation: at plain
scale every answer is one repeated token, which would prove nothing about the image. The same sizes
and seed give the same weights on the same torch version.

    python demo/models.py qwen2_5_vl FOLDER [--width 3584] [--layers 8] ...
"""

import argparse
import dataclasses
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

Kind = Literal["qwen2_5_vl", "qwen3_vl"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TITLES: dict[Kind, str] = {
    "qwen2_5_vl": "Qwen2.5-VL",
    "qwen3_vl": "Qwen3-VL with DeepStack",
}

HEAD_DIM = 64
SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
CHAT_TEMPLATE = """\
{%- for message in messages -%}
{{ '<|im_start|>' + message['role'] + '\n' }}
{%- if message['content'] is string -%}
{{ message['content'] }}
{%- else -%}
{%- for part in message['content'] -%}
{%- if part['type'] in ('image', 'image_url', 'image_embeds') -%}
{{ '<|vision_start|><|image_pad|><|vision_end|>' }}
{%- else -%}
{{ part['text'] }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{ '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\n' }}
{%- endif -%}
"""


@dataclass(frozen=True)
class Sizes:
    """How large a model is. `width` is the row of one image token: the language model's hidden
    size, which is also the vision tower's output (DeepStack adds one such row for each level). A
    multiple of 128. `heads`: of the language model, when it has not a head for each 64 of its
    width; Qwen3-VL only, whose heads have a width of their own. `inner_width`: of its feed-forward
    layers, when it is not twice its width."""

    width: int = 256
    layers: int = 4
    heads: int = 0
    kv_heads: int = 2
    inner_width: int = 0
    vision_width: int = 256
    vision_layers: int = 4
    image_pixels_max: int = 1024 * 1024
    context_tokens_max: int = 8192
    seed: int = 7

    def __post_init__(self) -> None:
        if self.width % (2 * HEAD_DIM) or self.width <= 0:
            raise ValueError(f"width {self.width} is not a positive multiple of {2 * HEAD_DIM}")
        heads = self.heads or self.width // HEAD_DIM
        if self.kv_heads <= 0 or heads % self.kv_heads:
            raise ValueError(f"{heads} heads cannot share {self.kv_heads} KV heads evenly")

    @property
    def kv_token_bytes(self) -> int:
        """Keys and values of one token in all layers, in bfloat16."""
        return self.layers * 2 * self.kv_heads * HEAD_DIM * 2


@dataclass(frozen=True)
class Features:
    """The shape of what the vision tower makes of an image."""

    width: int
    deepstack_levels: int
    patch_px: int
    merge_size: int = 2

    def rows(self, width_px: int, height_px: int) -> int:
        """Image tokens of an image whose sides, rounded to whole tokens, are within the limits."""
        token_px = self.patch_px * self.merge_size
        return round(height_px / token_px) * round(width_px / token_px)

    def nbytes(self, width_px: int, height_px: int) -> int:
        """Bytes of such an image's feature in bfloat16, DeepStack levels included."""
        return self.rows(width_px, height_px) * self.width * (1 + self.deepstack_levels) * 2


def features(kind: Kind, sizes: Sizes) -> Features:
    if kind == "qwen2_5_vl":
        return Features(width=sizes.width, deepstack_levels=0, patch_px=14)
    return Features(width=sizes.width, deepstack_levels=3, patch_px=16)


def write_tokenizer(folder: Path) -> dict[str, int]:
    """Writes a tokenizer with one token for each byte and returns the ids of the special tokens."""
    from tokenizers import Tokenizer, decoders
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import PreTrainedTokenizerFast

    vocabulary = {symbol: place for place, symbol in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    make: Any = PreTrainedTokenizerFast  # untyped in transformers, as the model classes below
    fast = make(
        tokenizer_object=tokenizer,
        additional_special_tokens=list(SPECIAL_TOKENS[1:]),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    return {token: int(fast.convert_tokens_to_ids(token)) for token in SPECIAL_TOKENS}


def text_settings(sizes: Sizes, ids: dict[str, int], rope: dict[str, Any]) -> dict[str, Any]:
    return {
        "vocab_size": 320,
        "hidden_size": sizes.width,
        "intermediate_size": sizes.inner_width or 2 * sizes.width,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads or sizes.width // HEAD_DIM,
        "num_key_value_heads": sizes.kv_heads,
        "max_position_embeddings": sizes.context_tokens_max,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
        "rope_parameters": {"rope_type": "default", **rope},
    }


def vision_settings(sizes: Sizes) -> dict[str, Any]:
    return {
        "depth": sizes.vision_layers,
        "hidden_size": sizes.vision_width,
        "intermediate_size": 2 * sizes.vision_width,
        "num_heads": 4,
        "out_hidden_size": sizes.width,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    }


def token_settings(ids: dict[str, int]) -> dict[str, Any]:
    return {
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
        "tie_word_embeddings": False,
    }


def qwen2_5_vl(sizes: Sizes, ids: dict[str, int]) -> tuple[Any, dict[str, Any]]:
    """The model, and the settings of its image processor."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    if sizes.heads not in (0, sizes.width // HEAD_DIM):
        raise ValueError("the heads of a Qwen2.5-VL have no width of their own")
    rope = {"rope_theta": 1e6, "mrope_section": [8, 12, 12]}
    window = {"patch_size": 14, "window_size": 112, "fullatt_block_indexes": [1, 3]}
    config = Qwen2_5_VLConfig(
        text_config=text_settings(sizes, ids, rope),
        vision_config={**vision_settings(sizes), **window},
        **token_settings(ids),
    )
    processor = {
        "processor_class": "Qwen2_5_VLProcessor",
        "patch_size": 14,
        "min_pixels": 56 * 56,
        "max_pixels": sizes.image_pixels_max,
        "image_mean": [0.48, 0.46, 0.41],
        "image_std": [0.27, 0.26, 0.28],
    }
    make: Any = Qwen2_5_VLForConditionalGeneration
    return make(config), processor


def qwen3_vl(sizes: Sizes, ids: dict[str, int]) -> tuple[Any, dict[str, Any]]:
    """The model, whose first three language layers take DeepStack features, and its image
    processor's settings.
    """
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    rope = {"rope_theta": 5e6, "mrope_section": [12, 10, 10], "mrope_interleaved": True}
    deepstack = {
        "patch_size": 16,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [0, 1, 2],
    }
    config = Qwen3VLConfig(
        text_config={**text_settings(sizes, ids, rope), "head_dim": HEAD_DIM},
        vision_config={**vision_settings(sizes), **deepstack},
        **token_settings(ids),
    )
    processor = {
        "processor_class": "Qwen3VLProcessor",
        "patch_size": 16,
        "size": {"shortest_edge": 65536, "longest_edge": sizes.image_pixels_max},
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    make: Any = Qwen3VLForConditionalGeneration
    return make(config), processor


BUILDERS: dict[Kind, Callable[[Sizes, dict[str, int]], tuple[Any, dict[str, Any]]]] = {
    "qwen2_5_vl": qwen2_5_vl,
    "qwen3_vl": qwen3_vl,
}


def scale_weights(model: Any) -> None:
    """Makes greedy answers vary, and depend on the image."""
    import torch

    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                factor = 40.0 if "lm_head" in name else 25.0 if "embed_tokens" in name else 5.0
                weight.mul_(factor)


def write_model(kind: Kind, folder: Path, sizes: Sizes) -> None:
    """Writes the model of this kind and these sizes to `folder`, which is replaced."""
    import torch
    import transformers

    quiet: Any = transformers.utils.logging
    quiet.disable_progress_bar()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ids = write_tokenizer(folder)
    torch.manual_seed(sizes.seed)
    model, processor = BUILDERS[kind](sizes, ids)
    model = model.to(torch.bfloat16)
    scale_weights(model)
    model.save_pretrained(folder)
    processor |= {
        "image_processor_type": "Qwen2VLImageProcessor",
        "merge_size": 2,
        "temporal_patch_size": 2,
        "do_resize": True,
        "do_rescale": True,
        "do_normalize": True,
        "rescale_factor": 1 / 255,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor, indent=1))


def blind_folder(folder: Path) -> Path:
    return folder.with_name(folder.name + "-blind")


def write_blind(folder: Path, blind: Path) -> None:
    """Writes a copy of a model whose vision tower's weights are all NaN: it cannot encode anything.

    `blind` is replaced. Whatever this model answers about an image, it was given the feature.
    """
    import torch
    from safetensors.torch import load_file, save_file

    shutil.rmtree(blind, ignore_errors=True)
    shutil.copytree(folder, blind)
    file = blind / "model.safetensors"
    weights = load_file(file)
    tower = [name for name in weights if "visual" in name.split(".")]
    if not tower:
        raise ValueError(f"{file} has no vision tower")
    for name in tower:
        weights[name] = torch.full_like(weights[name], float("nan"))
    save_file(weights, file, metadata={"format": "pt"})


def ensure_model(kind: Kind, folder: Path, sizes: Sizes | None = None) -> Features:
    """Writes the model unless `folder` holds exactly it; returns the shape of its features.

    A Qwen3-VL gets a blind copy beside it: vLLM 0.32 turns DeepStack off in an engine that is
    started without a vision tower, so there such an engine cannot stand for one.
    """
    import torch
    import transformers

    sizes = sizes or Sizes()
    stamp = folder / "made-of.json"
    made_of = {
        "kind": kind,
        "sizes": dataclasses.asdict(sizes),
        "torch": str(torch.__version__),
        "transformers": transformers.__version__,
        "template": CHAT_TEMPLATE,
        "format": 2,
    }
    if not stamp.is_file() or json.loads(stamp.read_text()) != made_of:
        write_model(kind, folder, sizes)
        if kind == "qwen3_vl":
            write_blind(folder, blind_folder(folder))
        stamp.write_text(json.dumps(made_of, indent=1))
    return features(kind, sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("folder", type=Path)
    for size in dataclasses.fields(Sizes):
        parser.add_argument("--" + size.name.replace("_", "-"), type=int, default=size.default)
    options = parser.parse_args()
    sizes = Sizes(**{size.name: getattr(options, size.name) for size in dataclasses.fields(Sizes)})
    shape = ensure_model(options.kind, options.folder, sizes)
    print(
        f"{options.folder}: {options.kind}, {shape.width} wide, DeepStack {shape.deepstack_levels}"
    )


if __name__ == "__main__":
    main()
