"""A prefill and a decode engine on one arena, and the requests a proxy would send them.

Both are consumers of the encoder cache as well, as in a deployment.
"""

import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from arena_process import ArenaProcess
from engine_process import EngineOptions, EngineProcess
from engines import image_part
from photographs import Photograph
from sluice import _core

Json = dict[str, Any]

# Of every hand-off, docs/formats/kv-handoff.md.
PREFIX = (
    "sluice1@tenant:default@kind:kv_handoff@model:kv@revision:1@encoder:none@dtype:uint8@"
    "layout:replicated@id:"
)


def kv_flags(name: str, role: str, directory: str, **extra: Any) -> list[str]:
    transfer = {
        "kv_connector": "SluiceKVConnector",
        "kv_connector_module_path": "sluice.vllm",
        "kv_role": role,
        "engine_id": name,
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"directory": directory, **extra},
    }
    return ["--kv-transfer-config", json.dumps(transfer)]


def text_of(tokens: int, salt: int = 0) -> str:
    """The models' tokenizer makes one token of each of these letters."""
    return "".join(chr(97 + (n * 7 + n // 13 + salt) % 26) for n in range(tokens))


class KVPair:
    """Owns the arena and both engines. A context manager."""

    def __init__(self, model: Path, logs: Path, *, flags: Sequence[str] = (), **extra: Any) -> None:
        self.arena = ArenaProcess("512MiB")
        directory = self.arena.directory

        def engine(name: str, role: str) -> EngineProcess:
            transfer = kv_flags(name, role, directory, **extra)
            options = EngineOptions(
                name, model, "ec_consumer", directory, flags=[*transfer, *flags], images=2
            )
            return EngineProcess(options, logs)

        self.prefill = engine("kv-prefill", "kv_producer")
        self.decode = engine("kv-decode", "kv_consumer")
        self.engines = [self.prefill, self.decode]

    def __enter__(self) -> Self:
        try:
            for engine in self.engines:
                engine.wait_ready()
        except BaseException:
            self._end(kill=True)
            raise
        self.client = _core.Client.attach(directory=self.arena.directory, label="test")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        self._end(kill=False)

    def _end(self, kill: bool) -> None:
        try:
            for engine in self.engines:
                engine.kill() if kill else engine.stop()
        finally:
            self.arena.close()

    # --- requests ---

    @staticmethod
    def body(text: str, pictures: Sequence[Photograph] = (), **more: Any) -> Json:
        content = [{"type": "text", "text": text}, *map(image_part, pictures)]
        return {
            "model": "m",
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "max_tokens": 12,
            "logprobs": True,
            "top_logprobs": 2,
            **more,
        }

    def prompt_kv(self, body: Json, handoff: str | None = None) -> Json:
        """Has prefill compute the prompt; what it answered."""
        names = ("logprobs", "top_logprobs", "stream")
        asked = {name: value for name, value in body.items() if name not in names}
        asked["max_tokens"] = 1
        asked["kv_transfer_params"] = {
            "do_remote_decode": True,
            "do_remote_prefill": False,
            "sluice_handoff": handoff or secrets.token_hex(16),
        }
        params = post(self.prefill, asked)["kv_transfer_params"]
        assert isinstance(params, dict)
        return params

    def answer(self, body: Json, params: Json | None = None) -> Any:
        """Decode's only choice: text, tokens and log-probabilities."""
        asked = body if params is None else {**body, "kv_transfer_params": params}
        return post(self.decode, asked)["choices"][0]

    # --- looking in ---

    def metrics(self, engine: EngineProcess) -> dict[str, float]:
        with urllib.request.urlopen(engine.http.address + "/metrics", timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        found = {}
        for line in lines:
            if line.startswith("sluice_kv_") and "_created" not in line:
                name, _, value = line.rpartition(" ")
                found[name.split("{")[0].removesuffix("_total").removeprefix("sluice_kv_")] = float(
                    value
                )
        return found

    def blocks_in_use(self, engine: EngineProcess) -> float:
        """The share of the engine's KV blocks that requests hold."""
        with urllib.request.urlopen(engine.http.address + "/metrics", timeout=10) as reply:
            for line in reply.read().decode().splitlines():
                if line.startswith("vllm:kv_cache_usage_perc"):
                    return float(line.rpartition(" ")[2])
        raise AssertionError("the engine does not say how many blocks are in use")

    def remove(self, params: Json, rest: str = ".") -> None:
        """Removes a hand-off, or the part of it whose keys go on with `rest`."""
        self.client.invalidate(f"{PREFIX}{params['sluice_handoff']}{rest}")

    def handoff_objects(self) -> int:
        return len(self.client.list(PREFIX))

    def await_released(self, seconds: float = 20.0) -> None:
        """No hand-off in the arena."""
        wait_until(lambda: not self.handoff_objects(), "the arena still has hand-offs", seconds)

    def await_blocks(self, seconds: float = 20.0) -> None:
        """No request holds a block."""
        wait_until(
            lambda: not any(map(self.blocks_in_use, self.engines)), "blocks are in use", seconds
        )

    def await_idle(self) -> None:
        self.await_blocks()
        self.await_released()


def wait_until(done: Callable[[], bool], otherwise: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def post(engine: EngineProcess, body: Json, timeout_s: float = 120.0) -> Any:
    request = urllib.request.Request(
        engine.http.address + "/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        raise AssertionError(f"HTTP {error.code}: {error.read().decode()[:300]}") from error
