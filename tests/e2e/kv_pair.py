"""A prefill and a decode engine on one arena, and the requests a proxy would send them.

Both are consumers of the encoder cache as well, as in a deployment.
"""

import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arena_process import ArenaProcess
from engine_group import HANDOFFS, EngineGroup
from engine_process import EngineOptions, EngineProcess
from engines import image_part
from photographs import Photograph

Json = dict[str, Any]


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


class KVPair(EngineGroup):
    def __init__(self, model: Path, logs: Path, *, flags: Sequence[str] = (), **extra: Any) -> None:
        super().__init__(ArenaProcess("512MiB"), logs)
        directory = self.arena.directory

        def engine(name: str, role: str) -> EngineProcess:
            transfer = kv_flags(name, role, directory, **extra)
            return self.start(
                EngineOptions(
                    name, model, "ec_consumer", directory, flags=[*transfer, *flags], images=2
                )
            )

        self.prefill = engine("kv-prefill", "kv_producer")
        self.decode = engine("kv-decode", "kv_consumer")

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

    def remove(self, params: Json, rest: str = ".") -> None:
        """Removes a hand-off, or the part of it whose keys go on with `rest`."""
        self.client.invalidate(f"{HANDOFFS}{params['sluice_handoff']}{rest}")


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
