"""Chat requests as clients of the endpoint send them, and what such a client sees."""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from engines import tokens_of
from kv_pair import Json
from photographs import Photograph

CHAT = "/v1/chat/completions"
TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Reply:
    """What a client saw of one request."""

    status: int
    tokens: tuple[tuple[str, float], ...] = ()  # each with its log-probability
    likely: tuple[dict[str, float], ...] = field(default=(), compare=False)  # at each one's place
    error: str = ""
    arrivals: tuple[float, ...] = field(default=(), compare=False)  # of a stream's events, seconds
    prompt_tokens: int = field(default=0, compare=False)  # of an answer that is not streamed

    @property
    def refused(self) -> bool:
        """It was told so: by the status, or by an error event of its stream."""
        return self.status >= 400 or bool(self.error)


def body(text: str, pictures: Sequence[Photograph] = (), **more: object) -> Json:
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


def begun(address: str, asked: Json) -> http.client.HTTPResponse:
    """Returns when the head of the answer has come: of a stream, with its first content."""
    request = urllib.request.Request(
        address + CHAT, json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    reply: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    return reply


def ask(address: str, asked: Json) -> Reply:
    """Streamed or not, as the body says. A server that cannot be reached is status 599."""
    try:
        with begun(address, asked) as reply:
            if asked.get("stream"):
                return streamed(int(reply.status), reply)
            whole = json.load(reply)
            choice = whole["choices"][0]
            return Reply(
                int(reply.status),
                tokens_of(choice),
                likely_of(choice),
                prompt_tokens=whole["usage"]["prompt_tokens"],
            )
    except urllib.error.HTTPError as error:
        return Reply(error.code, error=error.read().decode()[:300])
    except (OSError, http.client.HTTPException) as error:
        return Reply(599, error=str(error) or type(error).__name__)


def streamed(status: int, lines: Iterable[bytes]) -> Reply:
    tokens: list[tuple[str, float]] = []
    likely: list[dict[str, float]] = []
    arrivals: list[float] = []
    error, done = "", False
    for line in lines:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            done = True
            continue
        event = json.loads(data)
        arrivals.append(time.monotonic())
        if "error" in event:
            error = str(event["error"])
        for choice in event.get("choices", []):
            tokens += tokens_of(choice)
            likely += likely_of(choice)
    said = error or ("" if done else "the stream has no end")
    return Reply(status, tuple(tokens), tuple(likely), said, tuple(arrivals))


def likely_of(choice: Json) -> tuple[dict[str, float], ...]:
    """The `top_logprobs` that were asked for, of each token."""
    places = (choice.get("logprobs") or {}).get("content") or []
    return tuple(
        {one["token"]: one["logprob"] for one in place["top_logprobs"]} for place in places
    )


def same(seen: Reply, wanted: Reply) -> bool:
    """The same tokens; another batch or another chunk of the prompt may move a log-probability by
    its last bits."""
    return (
        not seen.error
        and [token for token, _ in seen.tokens] == [token for token, _ in wanted.tokens]
        and all(
            abs(one - other) < 0.05
            for (_, one), (_, other) in zip(seen.tokens, wanted.tokens, strict=True)
        )
    )
