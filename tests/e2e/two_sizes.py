"""Engines of tensor-parallel size 1 and 2 on one arena, and hand-offs between them by hand."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from arena_process import ArenaProcess
from counts import LOGS
from engine_group import HANDOFFS, EngineGroup
from engine_process import BUILD, EngineOptions, EngineProcess, Role
from kv_pair import Json, kv_flags, post
from proxy_process import Proxy
from sluice import _core

BLOCK = 32  # tokens
CACHED = (
    *("--max-num-batched-tokens", "512", "--enable-chunked-prefill"),
    *("--enable-prefix-caching", "--block-size", str(BLOCK)),
)
# A vision tower that is not split rounds as at size 1.
PARALLEL = ("--tensor-parallel-size", "2", "--mm-encoder-tp-mode", "data")


class TwoSizes(EngineGroup):
    """`one` and `two`, named by their sizes, each prefill or decode, and an `encoder` at size 1.
    `two` loads features from the encoder.
    """

    def __init__(self, model: Path) -> None:
        super().__init__(ArenaProcess("256MiB"), LOGS / "engines")
        directory = self.arena.directory

        def engine(name: str, role: Role | None, *flags: str, **environment: str) -> EngineProcess:
            return self.start(
                EngineOptions(name, model, role, directory, {}, flags, 4, environment)
            )

        def both(name: str) -> list[str]:
            return [*kv_flags(name, "kv_both", directory), *CACHED]

        self.one = engine("size-1", None, *both("size-1"))
        self.two = engine(
            "size-2", "ec_consumer", *both("size-2"), *PARALLEL, VLLM_CPU_OMP_THREADS_BIND="0|1"
        )
        self.encoder = engine("size-1-encoder", "ec_producer")

    def forget(self) -> None:
        self.await_idle()
        for engine in (self.one, self.two):
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
