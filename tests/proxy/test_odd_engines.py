"""What an engine sends beyond an ordinary answer harms one request at most: no other client sees a
byte of it, and the proxy lives."""

import pytest
from chat import CHAT, chat
from raw_http import Broken, request
from setups import NewProxy, NewStub, Pair

JSON = "content-type: application/json\r\n"
GOOD = f"HTTP/1.1 200 OK\r\n{JSON}content-length: 2\r\n\r\n{{}}"
SSE = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

BROKEN = {
    "two_lengths": f"HTTP/1.1 200 OK\r\n{JSON}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}",
    "length_and_chunked": (
        f"HTTP/1.1 200 OK\r\n{JSON}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n"
        "2\r\n{}\r\n0\r\n\r\n"
    ),
    "no_length_that_is_one": f"HTTP/1.1 200 OK\r\n{JSON}content-length: -2\r\n\r\n{{}}",
    "a_length_beyond_64_bits": f"HTTP/1.1 200 OK\r\ncontent-length: {'9' * 30}\r\n\r\n{{}}",
    "a_chunk_beyond_64_bits": (
        f"HTTP/1.1 200 OK\r\n{JSON}transfer-encoding: chunked\r\n\r\n{'f' * 20}\r\n{{}}"
    ),
    "a_chunk_that_is_no_number": (
        f"HTTP/1.1 200 OK\r\n{JSON}transfer-encoding: chunked\r\n\r\nxyz\r\n{{}}\r\n0\r\n\r\n"
    ),
    "no_status": f"HTTP/1.1 OK\r\n{JSON}content-length: 2\r\n\r\n{{}}",
    "a_status_of_four_digits": f"HTTP/1.1 2000 OK\r\n{JSON}content-length: 2\r\n\r\n{{}}",
    "another_protocol": f"ICY 200 OK\r\n{JSON}content-length: 2\r\n\r\n{{}}",
    "a_header_without_end": "HTTP/1.1 200 OK\r\nx: " + "y" * 200_000,
    "many_fields": "HTTP/1.1 200 OK\r\n" + "x: y\r\n" * 30_000 + "content-length: 2\r\n\r\n{}",
    "nul_in_a_field": f"HTTP/1.1 200 OK\r\nx: a\0b\r\n{JSON}content-length: 2\r\n\r\n{{}}",
    "a_field_without_a_colon": f"HTTP/1.1 200 OK\r\nnothing\r\n{JSON}content-length: 2\r\n\r\n{{}}",
    "an_upgrade": "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_answer_is_an_error_for_its_request_only(pair: Pair, name: str) -> None:
    pair.engine.next({"do": "raw", "body": BROKEN[name], "times": 8})
    headers = {"x-sluice-timeout-ms": "2000"}
    answer = pair.proxy.ask("POST", CHAT, chat(), headers)
    assert answer.status >= 500, answer
    answer.error()
    pair.engine.forget()
    assert pair.proxy.ask("POST", CHAT, chat()).json()["choices"]


def test_bytes_behind_an_answer_reach_nobody(pair: Pair) -> None:
    """They must not be taken for the answer to the next request on that connection."""
    poison = f'HTTP/1.1 200 OK\r\n{JSON}content-length: 18\r\n\r\n{{"poison":"yes!!"}}'
    for _ in range(5):
        pair.engine.next({"do": "raw", "body": GOOD + poison})
        first = pair.proxy.ask("POST", CHAT, chat())
        assert first.status != 200 or first.body == b"{}"
        for _ in range(3):
            answer = pair.proxy.ask("POST", CHAT, chat())
            assert answer.status == 200
            assert b"poison" not in answer.body
            assert answer.json()["choices"]


ODD = {
    "interim_answers_first": (
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + GOOD
    ),
    "trailers": (
        f"HTTP/1.1 200 OK\r\n{JSON}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\nx: y\r\n\r\n"
    ),
    "chunk_extensions": (
        f"HTTP/1.1 200 OK\r\n{JSON}transfer-encoding: chunked\r\n\r\n2;a=b\r\n{{}}\r\n0\r\n\r\n"
    ),
    "no_reason": f"HTTP/1.1 200 \r\n{JSON}content-length: 2\r\n\r\n{{}}",
    "names_in_capitals": "HTTP/1.1 200 OK\r\nCONTENT-LENGTH: 2\r\n\r\n{}",
    "an_announced_end": GOOD.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_answer_that_is_unusual_but_right_is_relayed(pair: Pair, name: str) -> None:
    pair.engine.next({"do": "raw", "body": ODD[name]})
    answer = pair.proxy.ask("POST", CHAT, chat())
    assert answer.status == 200, answer
    assert answer.body == b"{}"
    assert pair.proxy.ask("POST", CHAT, chat()).status == 200


def test_headers_of_an_engine_that_concern_only_its_connection_stay(pair: Pair) -> None:
    more = "connection: x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\nserver: secret/1.0\r\n"
    pair.engine.next({"do": "raw", "body": GOOD.replace(JSON, JSON + more)})
    answer = pair.proxy.ask("POST", CHAT, chat())
    assert answer.status == 200
    names = {name for name, _ in answer.headers}
    assert not names & {"x-hop", "keep-alive", "server"}


def chunked(*events: str) -> str:
    return SSE + "".join(f"{len(event):x}\r\n{event}\r\n" for event in events) + "0\r\n\r\n"


def test_streams_may_use_other_line_ends(pair: Pair) -> None:
    first = 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}'
    last = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
    for end in ("\n\n", "\r\n\r\n"):
        body = chunked(first + end, last + end, "data: [DONE]" + end)
        pair.engine.next({"do": "raw", "body": body})
        with pair.proxy.connect() as connection:
            connection.send(request("POST", CHAT, chat(stream=True)))
            said = b"".join(connection.pieces(connection.head()))
        assert said.replace(b"\r\n", b"\n").decode() == f"{first}\n\n{last}\n\ndata: [DONE]\n\n"


@pytest.mark.memory
def test_an_event_without_end_is_bounded(new_stub: NewStub, new_proxy: NewProxy) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(engine)
    assert proxy.ask("POST", CHAT, chat()).status == 200
    before = proxy.resident_kib()
    engine.always(events=3, event_bytes=16 << 20)
    with proxy.connect() as connection:
        connection.send(request("POST", CHAT, chat(stream=True)))
        try:
            head = connection.head()
            said = b"".join(connection.pieces(head))
            assert head.status >= 500 or b'"error"' in said[-2_000:]
        except (Broken, ConnectionError):
            pass
    assert proxy.resident_kib() - before < 64 * 1024
    engine.always()
    assert proxy.ask("POST", CHAT, chat()).status == 200


def test_a_stream_that_is_answered_whole_is_relayed(pair: Pair) -> None:
    """An engine may refuse, or answer, without a stream."""
    pair.engine.next({"do": "raw", "body": GOOD.replace("200 OK", "400 Bad Request")})
    answer = pair.proxy.ask("POST", CHAT, chat(stream=True))
    assert answer.status == 400
