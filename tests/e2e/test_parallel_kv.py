"""Hand-offs between engines of tensor-parallel size 1 and 2, both ways: heads are split and joined.

Two engines, each of which is prefill for the other; a proxy for each way. An engine of size 2 adds
its sums in another order, so that its KV is the other's up to rounding and an answer that goes on
from it is that of one engine only nearly. What has no rounding is checked bit by bit: the KV that
an engine took over and hands back is the KV that the other one wrote.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asking
import models
import pytest
import torch
from arena_process import ArenaProcess
from asking import Reply, body
from counts import LOGS, count
from engine_group import HANDOFFS, EngineGroup
from engine_process import BUILD, EngineOptions, EngineProcess
from kv_pair import Json, kv_flags, post, text_of
from proxy_process import Proxy
from sluice import _core
from stage import Stage

pytestmark = pytest.mark.engine
BLOCK = 32  # tokens
SIZES = models.Sizes()
PROMPTS = count(4, full=40)
CERTAIN = 3  # tokens that all answers have in common with the measure
ROUNDING = 0.3  # of a log-probability: these models' weights make much of a last bit
FLAGS = (
    *("--max-num-batched-tokens", "512", "--enable-chunked-prefill"),
    *("--enable-prefix-caching", "--block-size", str(BLOCK)),
)


class TwoSizes(EngineGroup):
    """`one` and `two`, named by their tensor-parallel sizes."""

    def __init__(self, model: Path) -> None:
        super().__init__(ArenaProcess("256MiB"), LOGS / "engines")
        directory = self.arena.directory

        def engine(size: int, binding: dict[str, str]) -> EngineProcess:
            name = f"kv-size-{size}"
            flags = [*kv_flags(name, "kv_both", directory), *FLAGS]
            flags += ["--tensor-parallel-size", str(size)]
            return self.start(
                EngineOptions(name, model, directory=directory, flags=flags, environment=binding)
            )

        self.one = engine(1, {})
        self.two = engine(2, {"VLLM_CPU_OMP_THREADS_BIND": "0|1"})

    def forget(self) -> None:
        self.await_idle()
        for engine in self.engines:
            engine.forget_prefixes()

    @contextmanager
    def proxy(self, prefill: EngineProcess, decode: EngineProcess) -> Iterator[Proxy]:
        instances = (f"prefill={prefill.http.address}", f"decode={decode.http.address}")
        with Proxy(
            BUILD, *instances, arena_directory=self.arena.directory, health_timeout="10s"
        ) as proxy:
            yield proxy

    # --- a hand-off without a proxy ---

    def written(self, prefill: EngineProcess, asked: Json) -> Json:
        """Has the engine compute the prompt and hand it off; the parameters for decode."""
        params = {"do_remote_decode": True, "sluice_handoff": secrets.token_hex(16)}
        answer = post(prefill, {**asked, "max_tokens": 1, "kv_transfer_params": params})
        given: Json = answer["kv_transfer_params"]
        assert given["do_remote_prefill"] is True, given
        return given

    def blocks_of(self, params: Json) -> dict[tuple[int, int, int], bytes]:
        """The hand-off's KV by (layer, head of the model, block), whoever wrote it."""
        found: dict[tuple[int, int, int], bytes] = {}
        prefix = f"{HANDOFFS}{params['sluice_handoff']}."
        for one in self.client.list(prefix):
            _, rank, place = one["key"].removeprefix(prefix).split(".")
            if place == "end":
                continue
            with self.client.get(_core.ObjectKey.parse(one["key"])) as lease:
                part = torch.utils.dlpack.from_dlpack(lease.array("kv")).clone()
                layer, block = (first_of(lease, name) for name in ("layers", "blocks"))
            layers, _, blocks, heads, _, _ = part.shape
            for at_layer in range(layers):
                for at_block in range(blocks):
                    for at_head in range(heads):
                        name = (layer + at_layer, int(rank) * heads + at_head, block + at_block)
                        found[name] = part[at_layer, :, at_block, at_head].numpy().tobytes()
        return found

    def remove(self, params: Json) -> None:
        self.client.invalidate(f"{HANDOFFS}{params['sluice_handoff']}.")


def first_of(lease: _core.Lease, name: str) -> int:
    value = lease.attributes[name]
    assert isinstance(value, list)
    return int(value[0])


@pytest.fixture
def sizes(model: Path, stage: Stage) -> TwoSizes:
    shown = stage.show("sizes", lambda: TwoSizes(model))
    shown.forget()
    return shown


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
            asked = body(text_of(100 + 211 * (n % 12), salt=40 + n), stream=n % 2 == 0)
            sizes.forget()
            alone = asking.ask(decode.http.address, asked)
            sizes.forget()
            seen = asking.ask(f"http://127.0.0.1:{proxy.port}", asked)
            agree = tokens_in_common(seen, alone)
            assert agree >= CERTAIN, (seen, alone)
            whole += agree == len(alone.tokens)
            pairs = list(zip(seen.tokens, alone.tokens, strict=True))[:agree]
            assert max(abs(one - other) for (_, one), (_, other) in pairs) < ROUNDING
    print(f"{way}: {whole} of {PROMPTS} answers have all tokens in common")
    assert 2 * whole >= PROMPTS
    sizes.await_idle()
    assert decode.kv()["loads"] - loads == PROMPTS * ranks
    assert decode.kv()["fallbacks"] == 0


def tokens_in_common(seen: Reply, alone: Reply) -> int:
    """From the beginning on. A token that was nearly as likely as another may be that other one."""
    assert not seen.error
    assert not alone.error
    pairs = enumerate(zip(seen.tokens, alone.tokens, strict=True))
    return next((n for n, ((one, _), (other, _)) in pairs if one != other), len(alone.tokens))
