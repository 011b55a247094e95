"""A client of an OpenAI endpoint that takes the times: of an engine, or of the proxy, on this
machine.

Threads: any; every request has a connection of its own.
Failure: RuntimeError for an answer that is not 200, a stream without content or with an error
         event; OSError for none at all.
"""

import http.client
import json
import time
from dataclasses import dataclass, field
from typing import Any

CHAT = "/v1/chat/completions"
TIMEOUT_S = 300.0
STAGES = b": x-sluice-timing"  # a comment before the end of the proxy's streams
DIGITS = 5  # of a log-probability that are kept

Json = dict[str, Any]


@dataclass(frozen=True)
class Streamed:
    """Seconds since the request was sent, and what came."""

    first_s: float  # until the first event with content
    last_s: float
    token_s: float  # until the first event with a token, whose text may be empty, or content
    gaps_s: tuple[float, ...]  # between events with tokens
    tokens: tuple[tuple[str, float], ...]  # with their log-probabilities, when these were asked for
    stages_ms: dict[str, float] = field(default_factory=dict)  # as the proxy measured them


def chat(text: str, image: str = "", **more: Any) -> Json:
    """A greedy streamed request; `image` is a data URL."""
    content: list[Json] = [{"type": "text", "text": text}] if text else []
    if image:
        content.append({"type": "image_url", "image_url": {"url": image}})
    return {
        "model": "m",
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        "max_tokens": 4,
        "stream": True,
        **more,
    }


def stream(port: int, body: Json, token: str = "") -> Streamed:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    began = time.monotonic()
    first_s, last_s, token_s = 0.0, 0.0, 0.0
    gaps_s: list[float] = []
    tokens: list[tuple[str, float]] = []
    stages_ms: dict[str, float] = {}
    try:
        for line in _sent(connection, port, CHAT, body, token):
            if line.startswith(STAGES):
                stages_ms = _stages(line.removeprefix(STAGES).decode())
            if not line.startswith(b"data: {"):
                continue
            now_s = time.monotonic() - began
            event = json.loads(line[6:])
            if "error" in event:
                raise RuntimeError(f"port {port}: {event['error']}")
            for choice in event.get("choices", []):
                found = _tokens(choice)
                tokens += found
                content = choice["delta"].get("content")
                if not token_s and (found or content):
                    token_s = now_s
                if not first_s and (content or choice.get("finish_reason")):
                    first_s = last_s = now_s
                elif first_s and (content or found):
                    gaps_s.append(now_s - last_s)
                    last_s = now_s
    finally:
        connection.close()
    if not first_s:
        raise RuntimeError(f"port {port}: a stream without content")
    return Streamed(first_s, last_s, token_s, tuple(gaps_s), tuple(tokens), stages_ms)


def first_token(port: int, body: Json, token: str = "") -> float:
    """Seconds until the first token: it may be a piece of a character, which makes no content."""
    return stream(port, {**body, "logprobs": True}, token).token_s


def post(port: int, body: Json, token: str = "", path: str = CHAT) -> Json:
    """A whole answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        text = _sent(connection, port, path, body, token).read()
    finally:
        connection.close()
    return dict(json.loads(text)) if text else {}


def page(port: int, path: str) -> str:
    """What GET answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def _sent(
    connection: http.client.HTTPConnection, port: int, path: str, body: Json, token: str
) -> http.client.HTTPResponse:
    headers = {"Content-Type": "application/json", "X-Sluice-Debug": "1"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    connection.request("POST", path, json.dumps(body), headers)
    reply = connection.getresponse()
    if reply.status != 200:
        raise RuntimeError(f"port {port}: HTTP {reply.status}: {reply.read()[:300]!r}")
    return reply


def _tokens(choice: Json) -> list[tuple[str, float]]:
    logprobs = (choice.get("logprobs") or {}).get("content") or []
    return [(one["token"], round(one["logprob"], DIGITS)) for one in logprobs]


def _stages(text: str) -> dict[str, float]:
    """Of `queue=0.1, encode=53.0`."""
    pairs = (entry.partition("=") for entry in text.strip(" :\r\n").split(",") if "=" in entry)
    return {name.strip(): float(value) for name, _, value in pairs}
