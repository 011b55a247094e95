"""The benchmarks' client takes apart what an endpoint streams, and takes no error for an answer."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from openai_client import chat, first_token, post, stream


@contextmanager
def endpoint(body: bytes, status: int = 200) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """A server that gives everybody this answer; its port, and the requests it got."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, asked
        finally:
            server.shutdown()
            thread.join()


def event(content: str | None, *tokens: str, finish: str | None = None) -> bytes:
    logprobs = {"content": [{"token": token, "logprob": -1.25} for token in tokens]}
    choice = {"delta": {"content": content}, "logprobs": logprobs, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


ROLE = b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'
STREAM = ROLE + event("a", "1") + event("b", "2") + event("", "3", finish="length")
DONE = b"data: [DONE]\n\n"


def test_a_stream_gives_tokens_times_and_the_proxys_stages() -> None:
    with endpoint(STREAM + b": x-sluice-timing queue=0.5, encode=12.25\n\n" + DONE) as (
        port,
        asked,
    ):
        got = stream(port, chat("hello", "data:image/png;base64,AA"))
    assert got.tokens == (("1", -1.25), ("2", -1.25), ("3", -1.25))
    assert 0 < got.token_s <= got.first_s <= got.last_s
    assert len(got.gaps_s) == 2
    assert got.stages_ms == {"queue": 0.5, "encode": 12.25}
    parts = asked[0]["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url"]


def test_an_event_without_content_is_not_the_first_content() -> None:
    with endpoint(ROLE + DONE) as (port, _), pytest.raises(RuntimeError, match="without content"):
        stream(port, chat("hello"))


def test_the_first_token_may_have_no_text() -> None:
    with endpoint(ROLE + event("", "1") + event("b", "2") + DONE) as (port, asked):
        assert first_token(port, chat("hello")) > 0
    assert asked[0]["logprobs"] is True
    with endpoint(ROLE + event("", "1") + event("b", "2") + DONE) as (port, _):
        got = stream(port, chat("hello"))
    assert got.token_s < got.first_s


def test_an_error_in_a_stream_is_an_error() -> None:
    broken = STREAM + b'data: {"error": {"message": "the engine died"}}\n\n'
    with endpoint(broken) as (port, _), pytest.raises(RuntimeError, match="the engine died"):
        stream(port, chat("hello"))


def test_a_refusal_is_an_error_with_its_status() -> None:
    with endpoint(b"no", status=429) as (port, _), pytest.raises(RuntimeError, match="HTTP 429"):
        post(port, chat("hello", stream=False))
