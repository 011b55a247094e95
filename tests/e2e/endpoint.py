"""A whole deployment behind one endpoint: sluiced, an encoder, a prefill and a decode engine, the
proxy, and a colocated engine as the measure, which the proxy does not know.
"""

import contextlib
import http.client
import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from arena_process import ArenaProcess
from deployment_fixture import wait_until
from engine_process import BUILD, EngineOptions, EngineProcess
from engines import tokens_of
from kv_pair import PREFIX, Json, kv_flags
from photographs import Photograph
from proxy_process import Proxy
from sluice import _core

CHAT = "/v1/chat/completions"
TIMEOUT_S = 120.0
TOKEN = "of-this-test"  # for the list of instances; clients on loopback need none
FLAGS = (
    # A prompt of some length is computed in several steps.
    *("--max-num-batched-tokens", "1024", "--enable-chunked-prefill"),
    # Processor arguments of engine and request: identifiers are not the uuids that were sent.
    *("--mm-processor-kwargs", '{"min_pixels": 50176}', "--trust-request-mm-kwargs"),
)


@dataclass(frozen=True)
class Reply:
    """What a client saw of one request."""

    status: int
    tokens: tuple[tuple[str, float], ...] = ()
    error: str = ""

    @property
    def refused(self) -> bool:
        """It was told so: by the status, or by an error event of its stream."""
        return self.status >= 400 or bool(self.error)


def body(text: str, pictures: Sequence[Photograph] = (), **more: Any) -> Json:
    content: list[Json] = [{"type": "text", "text": text}]
    content += [{"type": "image_url", "image_url": {"url": one.url}} for one in pictures]
    return {
        "model": "m",
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        "max_tokens": 12,
        "logprobs": True,
        "top_logprobs": 1,
        "return_tokens_as_token_ids": True,
        **more,
    }


def ask(address: str, asked: Json) -> Reply:
    """Streamed or not, as the body says. A server that cannot be reached is status 599."""
    request = urllib.request.Request(
        address + CHAT, json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
            if asked.get("stream"):
                return streamed(int(reply.status), reply)
            return Reply(int(reply.status), tokens_of(json.load(reply)["choices"][0]))
    except urllib.error.HTTPError as error:
        return Reply(error.code, error=error.read().decode()[:300])
    except (OSError, http.client.HTTPException) as error:
        return Reply(599, error=str(error) or type(error).__name__)


def streamed(status: int, lines: Iterator[bytes]) -> Reply:
    tokens: list[tuple[str, float]] = []
    error, done = "", False
    for line in lines:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            done = True
            continue
        event = json.loads(data)
        if "error" in event:
            error = str(event["error"])
        for choice in event.get("choices", []):
            tokens += tokens_of(choice)
    return Reply(status, tuple(tokens), error or ("" if done else "the stream has no end"))


class Endpoint:
    """A context manager."""

    def __init__(self, model: Path, logs: Path) -> None:
        self.arena = ArenaProcess("512MiB")
        directory = self.arena.directory

        def engine(name: str, ec_role: Any = None, kv_role: str = "") -> EngineProcess:
            transfer = kv_flags(name, kv_role, directory) if kv_role else []
            options = EngineOptions(
                f"ep-{name}", model, ec_role, directory, flags=[*transfer, *FLAGS]
            )
            return EngineProcess(options, logs)

        self.encoder = engine("encoder", "ec_producer")
        self.prefill = engine("prefill", "ec_consumer", "kv_producer")
        self.decode = engine("decode", "ec_consumer", "kv_consumer")
        self.colocated = engine("colocated")
        self.engines = [self.encoder, self.prefill, self.decode, self.colocated]
        self.proxy: Proxy | None = None

    def __enter__(self) -> Self:
        try:
            for engine in self.engines:
                engine.wait_ready()
            self.start_proxy()
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

    def start_proxy(self) -> None:
        instances = [
            f"{role}={engine.http.address}"
            for role, engine in zip(("encoder", "prefill", "decode"), self.engines, strict=False)
        ]
        self.proxy = Proxy(
            BUILD,
            *instances,
            arena_directory=self.arena.directory,
            health_interval="500ms",
            health_timeout="10s",
            environment={"SLUICE_TOKEN": TOKEN},
        )
        wait_until(lambda: all(self.usable().values()), "the proxy uses every engine")

    def _end(self, kill: bool) -> None:
        with contextlib.ExitStack() as last:  # each of them whatever became of the others
            last.callback(self.arena.close)
            for engine in self.engines:
                last.callback(engine.kill if kill else engine.stop)
            if self.proxy is not None:
                last.callback(self.proxy.close)

    # --- requests ---

    @property
    def address(self) -> str:
        assert self.proxy is not None
        return f"http://127.0.0.1:{self.proxy.port}"

    def ask(self, asked: Json) -> Reply:
        return ask(self.address, asked)

    def measure(self, asked: Json) -> Reply:
        """What one engine answers that does it all."""
        for engine in self.engines:
            engine.http.empty_encoder_cache()
        alone = ask(self.colocated.http.address, asked)
        assert alone.tokens, alone.error
        return alone

    def leave(self, asked: Json, after_s: float) -> None:
        """Sends a request and closes the connection so long after, whatever has come."""
        assert self.proxy is not None
        text = json.dumps(asked).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.proxy.port)) as connection:
            connection.sendall(head.encode() + text)
            connection.settimeout(after_s)
            with contextlib.suppress(TimeoutError):
                while connection.recv(65536):
                    pass

    # --- looking in ---

    def counted(self, name: str) -> float:
        assert self.proxy is not None
        return self.proxy.metric(rf"^sluice_proxy_{name}(\{{|$)")

    def usable(self) -> dict[str, bool]:
        """Role -> does the proxy send requests to its engine?"""
        assert self.proxy is not None
        answer = self.proxy.ask(
            "GET", "/v1/instances", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        listed = json.loads(answer.body)
        return {one["role"]: one["healthy"] for one in listed["instances"]}

    def blocks_in_use(self) -> float:
        """Summed over the engines: the shares of their KV blocks that requests hold."""
        used = 0.0
        for engine in self.engines:
            with urllib.request.urlopen(engine.http.address + "/metrics", timeout=10) as reply:
                text = reply.read().decode()
            found = re.findall(r"^vllm:kv_cache_usage_perc\S* (\S+)$", text, re.MULTILINE)
            used += sum(map(float, found))
        return used

    def await_idle(self) -> None:
        """No request holds a block, and no hand-off is in the arena."""
        wait_until(lambda: self.blocks_in_use() == 0, "all KV blocks are free")
        wait_until(lambda: not self.client.list(PREFIX), "no hand-off is left in the arena")
