"""Prefill and decode with prefix caches, of a model with DeepStack: the answers are those of one
engine without one, and a block that decode has is not moved again.

The measure computes each prompt as a whole, while an engine that finds a part in its cache computes
the rest in a smaller batch, which may round otherwise: then logprobs are compared up to that.
"""

import math
from pathlib import Path

import models
import pytest
from asking import body, same
from counts import LOGS
from endpoint import Endpoint
from kv_pair import Json, text_of
from pictures import SIDE_PX, picture
from stage import Stage

pytestmark = pytest.mark.engine
BLOCK = 32  # tokens
MIN_PIXELS = 2 * SIDE_PX**2
SIZES = models.Sizes()
BLOCK_BYTES = SIZES.layers * 2 * 2 * BLOCK * models.HEAD_DIM * 2  # K and V, of two heads, bfloat16
FLAGS = (
    *("--max-num-batched-tokens", "1024", "--enable-chunked-prefill", "--block-size", str(BLOCK)),
    *("--mm-processor-kwargs", f'{{"min_pixels": {MIN_PIXELS}}}', "--trust-request-mm-kwargs"),
)


@pytest.fixture
def cached(deepstack_model: Path, stage: Stage) -> Endpoint:
    """Both with prefix caches, which are empty, as are all encoder caches and the arena."""

    def make() -> Endpoint:
        staged = ["--enable-prefix-caching"]
        return Endpoint(deepstack_model, LOGS / "engines", "cached", FLAGS, staged)

    shown = stage.show("cached", make)
    shown.await_idle()
    shown.prefill.forget_prefixes()
    shown.decode.forget_prefixes()
    return shown


def blocks_of(moved: tuple[float, float]) -> tuple[float, float]:
    """Written by prefill, copied by decode: blocks of all layers."""
    return moved[0] / BLOCK_BYTES, moved[1] / BLOCK_BYTES


def cached_blocks(tokens: int) -> int:
    """Of a prompt that was seen before: all full ones, but the last token is always computed."""
    return (tokens - 1) // BLOCK


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_only_blocks_that_decode_lacks_are_moved(cached: Endpoint, stream: bool) -> None:
    asked = body(text_of(700, salt=1), stream=stream)
    wanted = cached.measure({**asked, "stream": False})
    fallbacks = cached.growth("fallbacks_total")
    whole, known = math.ceil(wanted.prompt_tokens / BLOCK), cached_blocks(wanted.prompt_tokens)

    def moved(exactly: bool) -> tuple[float, float]:
        since = cached.moved()
        seen = cached.ask(asked)
        assert seen == wanted if exactly else same(seen, wanted)
        return blocks_of(since())

    assert moved(exactly=True) == (whole, whole)
    assert moved(exactly=False) == (whole, whole - known)
    cached.decode.forget_prefixes()  # prefill finds its blocks and hands off all of them
    assert moved(exactly=False) == (whole, whole)
    cached.prefill.forget_prefixes()  # prefill computes everything and decode lacks the end
    assert moved(exactly=False) == (whole, whole - known)
    assert fallbacks() == [0]


def test_of_a_prompt_that_begins_as_another_only_the_rest_is_moved(cached: Endpoint) -> None:
    first = body(text_of(640, salt=2))
    longer = body(text_of(640, salt=2) + text_of(500, salt=9))
    assert cached.ask(first) == cached.measure(first)
    wanted = cached.measure(longer)
    since = cached.moved()
    assert same(cached.ask(longer), wanted)
    sent, received = blocks_of(since())
    assert sent == math.ceil(wanted.prompt_tokens / BLOCK)
    # The two differ from the first one's last letter on, somewhere in its last two blocks.
    assert sent - received in (640 // BLOCK - 1, 640 // BLOCK)


def test_blocks_of_a_picture_are_not_those_of_another(cached: Endpoint) -> None:
    asked = body("Who is it? ", [picture(140)])
    other = body("Who is it? ", [picture(141)])
    wanted = cached.measure(asked)
    assert cached.ask(asked) == wanted
    since = cached.moved()
    assert same(cached.ask(asked), wanted)
    sent, received = blocks_of(since())
    assert sent - received == cached_blocks(wanted.prompt_tokens)
    assert same(cached.ask(other), cached.measure(other))
    assert not same(wanted, cached.measure(other))


def test_engines_with_processor_arguments_skip_the_encoder_for_a_repeat(cached: Endpoint) -> None:
    """All that could answer for the encoder is empty, but the arena."""
    asked = body("What is it? ", [picture(142), picture(143)])
    wanted = cached.measure(asked)
    grown = cached.growth("encodes_total", "encodes_skipped_total")
    assert cached.ask(asked) == wanted
    assert grown() == [2, 0]
    cached.await_idle()
    for engine in (cached.prefill, cached.decode):
        engine.forget_prefixes()
        engine.http.empty_encoder_cache()
    loads = cached.prefill.metrics()["sluice_ec_loads"]
    assert cached.ask({**asked, "stream": True}) == wanted
    assert grown() == [2, 2]
    assert cached.ask(body("And so? ")).tokens  # its steps carry what was counted last
    assert cached.prefill.metrics()["sluice_ec_loads"] == loads + 2
    # The engines' arguments make more of a picture than the model's own would.
    rows = models.features("qwen3_vl", SIZES).rows(SIDE_PX, SIDE_PX)
    assert wanted.prompt_tokens > 2 * MIN_PIXELS / SIDE_PX**2 * rows


def test_processor_arguments_of_a_request_reach_the_encoder(cached: Endpoint) -> None:
    plain = body("How large? ", [picture(144)])
    asked: Json = {**plain, "mm_processor_kwargs": {"min_pixels": 200_704}}
    wanted = cached.measure(asked)
    assert wanted.prompt_tokens > cached.measure(plain).prompt_tokens
    grown = cached.growth("encodes_total")
    assert cached.ask(asked) == wanted
    assert same(cached.ask(asked), wanted)
    assert grown() == [1]
