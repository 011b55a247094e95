"""The demo's side of an engine's HTTP interface: send a conversation, take the answer apart, empty
the engine's cache.

Failure: an engine that answers with an error, or not at all, gives an Answer whose `error` says so;
nothing raises.
"""

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from photographs import Photograph

ANSWER_TOKENS = 12
DIGITS = 5  # of a logprob that are compared
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

    def ask(
        self,
        conversation: Sequence[Said],
        tokens: int = ANSWER_TOKENS,
        transfer: Json | None = None,
        timeout_s: float = 120.0,
    ) -> Answer:
        """One greedy answer, with the logprob of each of its tokens."""
        body: Json = {
            "model": self.model,
            "messages": messages(conversation),
            "max_tokens": tokens,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": 1,
            "return_tokens_as_token_ids": True,
        }
        if transfer:
            body["ec_transfer_params"] = transfer
        begin = time.monotonic()
        try:
            reply = self._post("/v1/chat/completions", body, timeout_s)
        except OSError as error:
            return Answer(time.monotonic() - begin, error=explain(error))
        seconds = time.monotonic() - begin
        choice = reply["choices"][0]
        logprobs = (choice.get("logprobs") or {}).get("content") or []
        return Answer(
            seconds,
            tokens=tuple((one["token"], round(one["logprob"], DIGITS)) for one in logprobs),
            text=choice["message"]["content"] or "",
            transfer=reply.get("ec_transfer_params") or {},
        )

    def empty_encoder_cache(self) -> str:
        """Needs VLLM_SERVER_DEV_MODE=1 in the engine. Empty, or why it did not work."""
        try:
            self._post("/reset_encoder_cache", None, 30.0)
        except OSError as error:
            return explain(error)
        return ""

    def _post(self, path: str, body: Json | None, timeout_s: float) -> Json:
        request = urllib.request.Request(
            self.address + path,
            data=b"" if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=timeout_s) as reply:
            text = reply.read()
        return dict(json.loads(text)) if text else {}


def explain(error: OSError) -> str:
    """One line: the status and message of an HTTP error, or why there was no answer."""
    if isinstance(error, urllib.error.HTTPError):
        text = error.read().decode(errors="replace")
        with contextlib.suppress(ValueError, KeyError, TypeError):
            text = json.loads(text)["error"]["message"]
        return f"HTTP {error.code}: {' '.join(text.split())[:200]}"
    return " ".join(str(getattr(error, "reason", error)).split())[:200]
