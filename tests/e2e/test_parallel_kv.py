"""Hand-offs between engines of tensor-parallel size 1 and 2, both ways: heads are split and joined.

Two engines, each of which is prefill for the other; a proxy for each way. An engine of size 2 adds
its sums in another order, so that its KV is the other's up to rounding and an answer that goes on
from it is that of one engine only nearly: where it says something else, that was as likely but for
last bits. What has no rounding is checked bit by bit: the KV that an engine took over and hands
back is the KV that the other one wrote.
"""

import asking
import models
import pytest
from asking import Reply, body
from counts import count
from engine_process import EngineProcess
from kv_pair import post, text_of
from two_sizes import BLOCK, TwoSizes

pytestmark = pytest.mark.engine
SIZES = models.Sizes()
PROMPTS = count(4, full=40)
LIKELY = 5  # tokens that each of an answer's is compared with
ROUNDING = 0.3  # of a log-probability: these models' weights make much of a last bit
TIE = 1.0  # between two of them: one last bit each, bfloat16 logits of up to 128
Ways = pytest.mark.parametrize("way", ["one-to-two", "two-to-one"])


def engines_of(sizes: TwoSizes, way: str) -> tuple[EngineProcess, EngineProcess]:
    return (sizes.one, sizes.two) if way == "one-to-two" else (sizes.two, sizes.one)


@Ways
def test_heads_are_split_and_joined_without_changing_a_bit(sizes: TwoSizes, way: str) -> None:
    writer, reader = engines_of(sizes, way)
    asked = body(text_of(900, salt=len(way)))
    first = sizes.written(writer, asked)
    reply = post(reader, {**asked, "kv_transfer_params": {**first, "keep": True}})
    full = (reply["usage"]["prompt_tokens"] - 1) // BLOCK
    assert full > 20
    back = sizes.written(reader, asked)  # from its prefix cache, but for the prompt's end
    assert (first["ranks"], back["ranks"]) == ((1, 2) if writer is sizes.one else (2, 1))
    there, here = sizes.blocks_of(first), sizes.blocks_of(back)
    assert there.keys() == here.keys()
    compared = [name for name in there if name[2] < full]
    assert len(compared) == SIZES.layers * 2 * full
    assert [name for name in compared if there[name] != here[name]] == []
    assert len({there[name] for name in compared}) == len(compared)  # no two alike, or all proves
    for params in (first, back):
        sizes.remove(params)
    sizes.await_idle()


@Ways
def test_answers_through_the_proxy_are_those_of_the_decode_engine_alone(
    sizes: TwoSizes, way: str
) -> None:
    prefill, decode = engines_of(sizes, way)
    ranks = 2 if decode is sizes.two else 1
    loads, whole = decode.kv()["loads"], 0
    with sizes.proxy(prefill, decode) as proxy:
        for n in range(PROMPTS):
            text = text_of(100 + 211 * (n % 12), salt=40 + n)
            asked = body(text, stream=n % 2 == 0, top_logprobs=LIKELY)
            sizes.forget()
            alone = asking.ask(decode.http.address, asked)
            sizes.forget()
            seen = asking.ask(f"http://127.0.0.1:{proxy.port}", asked)
            agree = tokens_in_common(seen, alone)
            whole += agree == len(alone.tokens)
            pairs = list(zip(seen.tokens, alone.tokens, strict=True))[:agree]
            assert all(abs(one - other) < ROUNDING for (_, one), (_, other) in pairs), (seen, alone)
            if agree < len(alone.tokens):
                shift = parting_shift(seen, alone, agree)
                print(f"{way}: parted by a shift of {shift:.3f}")
                assert shift < TIE, (seen, alone)
    print(f"{way}: {whole} of {PROMPTS} answers have all tokens in common")
    assert 2 * whole >= PROMPTS
    sizes.await_idle()
    assert decode.kv()["loads"] - loads == PROMPTS * ranks
    assert decode.kv()["fallbacks"] == 0


def parting_shift(seen: Reply, alone: Reply, place: int) -> float:
    """By how much the two tokens' log-probabilities moved against each other from one engine to the
    other, at the place where the answers part: what made the other one the likelier of the two.
    """
    (said, _), (instead, _) = alone.tokens[place], seen.tokens[place]
    unlikely = -99.0
    before = alone.likely[place][said] - alone.likely[place].get(instead, unlikely)
    after = seen.likely[place].get(said, unlikely) - seen.likely[place][instead]
    return before - after


def tokens_in_common(seen: Reply, alone: Reply) -> int:
    """From the beginning on."""
    assert not seen.error
    assert not alone.error
    pairs = enumerate(zip(seen.tokens, alone.tokens, strict=True))
    return next((n for n, ((one, _), (other, _)) in pairs if one != other), len(alone.tokens))
