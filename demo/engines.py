"""The demo's side of an engine's or the proxy's HTTP interface: send a conversation, take the
answer apart, empty the engine's cache.

Failure: an engine that answers with an error, or not at all, gives an Answer whose `error` says so;
nothing raises.
"""

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import Any

from photographs import Photograph

ANSWER_TOKENS = 12
DIGITS = 5  # of a logprob that are compared
CHAT = "/v1/chat/completions"
TIMING = "x-sluice-timing"  # of the proxy, when it was asked for
Json = dict[str, Any]


@dataclass(frozen=True)
class Reference:
    """An image that is not sent: only its name and what sizes its place in the prompt."""

    uuid: str
    metadata: Json  # as the encoder reported it, for instance {"image_grid_thw": [1, 32, 32]}


@dataclass(frozen=True)
class Said:
    """One earlier or present turn of a conversation: what the user sent, and the answer if there is
    one.
    """

    text: str
    images: Sequence[Photograph | Reference]
    answer: str | None = None


@dataclass(frozen=True)
class Answer:
    seconds: float
    tokens: tuple[tuple[str, float], ...] = ()  # (token id as text, logprob)
    text: str = ""
    transfer: Json = field(default_factory=dict)  # ec_transfer_params of the response
    error: str = ""
    prompt_tokens: int = 0
    first_seconds: float = 0.0  # until the first token, of a streamed answer
    stages: dict[str, float] = field(default_factory=dict)  # of the proxy's: milliseconds by stage


def image_part(image: Photograph | Reference) -> Json:
    if isinstance(image, Photograph):
        return {"type": "image_url", "image_url": {"url": image.url}, "uuid": image.uuid}
    return {"type": "image_embeds", "image_embeds": image.metadata, "uuid": image.uuid}


def messages(conversation: Sequence[Said]) -> list[Json]:
    out: list[Json] = []
    for said in conversation:
        content = [{"type": "text", "text": said.text}, *map(image_part, said.images)]
        out.append({"role": "user", "content": content})
        if said.answer is not None:
            out.append({"role": "assistant", "content": said.answer})
    return out


@dataclass(frozen=True)
class Engine:
    name: str
    address: str  # http://127.0.0.1:PORT
    model: str = "demo"
    token: str = ""  # what it wants as a bearer token; never shown

    def ask(
        self,
        conversation: Sequence[Said],
        tokens: int = ANSWER_TOKENS,
        transfer: Json | None = None,
        timeout_s: float = 120.0,
    ) -> Answer:
        """One greedy answer, with the logprob of each of its tokens."""
        body = self._body(conversation, tokens)
        if transfer:
            body["ec_transfer_params"] = transfer
        begin = time.monotonic()
        try:
            with self._open(CHAT, body, timeout_s) as answer:
                reply = json.loads(answer.read())
                stages = stage_times(answer.headers.get(TIMING, ""))
        except OSError as error:
            return Answer(time.monotonic() - begin, error=explain(error))
        choice = reply["choices"][0]
        return Answer(
            time.monotonic() - begin,
            tokens=tokens_of(choice),
            text=choice["message"]["content"] or "",
            transfer=reply.get("ec_transfer_params") or {},
            prompt_tokens=int(reply["usage"]["prompt_tokens"]),
            stages=stages,
        )

    def ask_streamed(
        self,
        conversation: Sequence[Said],
        tokens: int = ANSWER_TOKENS,
        timeout_s: float = 120.0,
    ) -> Answer:
        """The same answer, taken event by event. An error event, or an end without [DONE], is an
        error of the answer."""
        body = self._body(conversation, tokens) | {"stream": True}
        got: list[tuple[str, float]] = []
        stages: dict[str, float] = {}
        text, error, ended, first = "", "", False, 0.0
        begin = time.monotonic()
        try:
            with self._open(CHAT, body, timeout_s) as answer:
                for event in events(answer):
                    if event.startswith(TIMING):
                        stages = stage_times(event.removeprefix(TIMING))
                        continue
                    if event == "[DONE]":
                        ended = True
                        continue
                    chunk = json.loads(event)
                    if "error" in chunk:
                        error = str(chunk["error"].get("message", chunk["error"]))
                        continue
                    for choice in chunk.get("choices", []):
                        got += tokens_of(choice)
                        text += choice.get("delta", {}).get("content") or ""
                    first = first or (time.monotonic() - begin if got else 0.0)
        except OSError as problem:
            return Answer(time.monotonic() - begin, error=explain(problem))
        return Answer(
            time.monotonic() - begin,
            tokens=tuple(got),
            text=text,
            error=error or ("" if ended else "the stream ended without [DONE]"),
            first_seconds=first,
            stages=stages,
        )

    def empty_encoder_cache(self) -> str:
        """Needs VLLM_SERVER_DEV_MODE=1 in the engine. Empty, or why it did not work."""
        try:
            self._open("/reset_encoder_cache", None, 30.0).close()
        except OSError as error:
            return explain(error)
        return ""

    def _body(self, conversation: Sequence[Said], tokens: int) -> Json:
        return {
            "model": self.model,
            "messages": messages(conversation),
            "max_tokens": tokens,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": 1,
            "return_tokens_as_token_ids": True,
        }

    def _open(self, path: str, body: Json | None, timeout_s: float) -> HTTPResponse:
        headers = {"Content-Type": "application/json", "X-Sluice-Debug": "1"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(
            self.address + path,
            data=b"" if body is None else json.dumps(body).encode(),
            headers=headers,
        )
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=timeout_s)
        return answer


def tokens_of(choice: Json) -> tuple[tuple[str, float], ...]:
    """Token ids as text, and their logprobs, of an answer's choice or of a chunk's."""
    logprobs = (choice.get("logprobs") or {}).get("content") or []
    return tuple((one["token"], round(one["logprob"], DIGITS)) for one in logprobs)


def events(answer: HTTPResponse) -> Iterator[str]:
    """The data of each server-sent event; of comments only the proxy's times."""
    data: list[str] = []
    for raw in answer:
        line = raw.decode().rstrip("\r\n")
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").lstrip())
        elif line.startswith(f": {TIMING}"):
            yield line.removeprefix(": ")
        elif not line and data:
            yield "\n".join(data)
            data = []


def stage_times(header: str) -> dict[str, float]:
    """Milliseconds by stage, from the proxy's `queue=0.1, encode=53.0`."""
    stages: dict[str, float] = {}
    for entry in filter(None, header.split(",")):
        name, _, duration = entry.strip().partition("=")
        with contextlib.suppress(ValueError):
            stages[name] = float(duration)
    return stages


def explain(error: OSError) -> str:
    """One line: the status and message of an HTTP error, or why there was no answer."""
    if isinstance(error, urllib.error.HTTPError):
        text = error.read().decode(errors="replace")
        with contextlib.suppress(ValueError, KeyError, TypeError):
            text = json.loads(text)["error"]["message"]
        return f"HTTP {error.code}: {' '.join(text.split())[:200]}"
    return " ".join(str(getattr(error, "reason", error)).split())[:200]
