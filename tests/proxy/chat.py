"""Requests that clients send, and what their answers say."""

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
RESPONSES = "/v1/responses"


def data_url(name: str, size: int = 600) -> str:
    """Media that differs for each name. The stub engines do not look into it."""
    data = (name.encode() + b" ") * (size // (len(name) + 1) + 1)
    return "data:image/png;base64," + base64.b64encode(data[:size]).decode()


def image(name: str, *, size: int = 600, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(name, size)}, **more}


def message(*parts: dict[str, Any], text: str = "what is this?") -> dict[str, Any]:
    return {"role": "user", "content": [*parts, {"type": "text", "text": text}]}


def chat(*parts: dict[str, Any], text: str = "what is this?", **more: Any) -> bytes:
    """A chat request with media, or with text only; `stub` in `more` scripts the engines."""
    return json.dumps(
        {"model": "stub", "messages": [message(*parts, text=text)], "max_tokens": 4, **more}
    ).encode()


def completion(prompt: str = "once", **more: Any) -> bytes:
    return json.dumps({"model": "stub", "prompt": prompt, "max_tokens": 4, **more}).encode()


def events_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The events of a stream, each with its empty line, whatever pieces they came in."""
    held = b""
    for piece in pieces:
        held += piece
        while (end := held.find(b"\n\n")) >= 0:
            yield held[: end + 2]
            held = held[end + 2 :]
    assert not held, f"half an event at the end: {held!r}"


@dataclass
class Stream:
    """What a chat or completions stream has said."""

    numbers: list[int]  # the tokens of choice 0, which the stub counts up
    finish_reason: str | None = None
    done: bool = False
    error: dict[str, Any] | None = None
    events: int = 0

    @property
    def is_whole(self) -> bool:
        return self.done and self.error is None and self.finish_reason is not None

    def has_first(self, count: int) -> bool:
        """Exactly the first `count` tokens, none lost, doubled, merged or out of order."""
        return self.numbers == list(range(count))


def read_stream(pieces: Iterable[bytes]) -> Stream:
    out = Stream([])
    for event in events_of(pieces):
        add_event(out, event)
    return out


def add_event(out: Stream, event: bytes) -> None:
    assert event.startswith(b"data: "), event
    assert event.count(b"data: ") == 1, f"merged: {event!r}"
    assert not out.done, f"after [DONE]: {event!r}"
    data = event[len(b"data: ") :].strip()
    out.events += 1
    if data == b"[DONE]":
        out.done = True
        return
    said = json.loads(data)
    if "error" in said:
        out.error = said["error"]
        return
    for choice in said["choices"]:
        if choice["index"] != 0:
            continue
        text = choice["delta"].get("content") if "delta" in choice else choice["text"]
        if text:
            out.numbers.append(int(text.split()[0]))
        out.finish_reason = choice["finish_reason"] or out.finish_reason
