"""The scripted engine does what it is told, seen without a proxy: a fault that is not there would
make every test of it pass."""

import json

import pytest
import raw_http
from chat import CHAT, COMPLETIONS, chat, completion, image, read_stream
from raw_http import Broken, Connection, request
from setups import NewStub


def test_tokens_are_numbered_and_parameters_are_there_to_be_stripped(new_stub: NewStub) -> None:
    engine = new_stub("decode")
    answer = raw_http.ask(engine.port, "POST", CHAT, chat(max_tokens=3))
    assert answer.json()["choices"][0]["message"]["content"] == " 0 1 2"
    assert answer.json()["kv_transfer_params"] == {"stub_of": "decode"}
    with Connection(engine.port) as connection:
        connection.send(request("POST", CHAT, chat(max_tokens=3, stream=True)))
        body = b"".join(connection.pieces(connection.head()))
    assert b"kv_transfer_params" in body
    stream = read_stream([body])
    assert stream.is_whole
    assert stream.has_first(3)


@pytest.mark.parametrize("do", ["close", "half", "reset", "garbage"])
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_breaks(new_stub: NewStub, do: str, stream: bool) -> None:
    engine = new_stub("colocated")
    engine.next({"do": do})
    with Connection(engine.port) as connection:
        connection.send(request("POST", CHAT, chat(stream=stream)))
        with pytest.raises((Broken, ConnectionError)):
            connection.answer()
    assert engine.only()["outcome"] == do


@pytest.mark.parametrize("do", ["close", "half", "reset", "garbage"])
def test_a_stream_breaks_after_so_many_tokens(new_stub: NewStub, do: str) -> None:
    engine = new_stub("colocated")
    script = {"do": do, "after_events": 3}
    pieces: list[bytes] = []
    with Connection(engine.port) as connection:
        body = completion(stream=True, max_tokens=9, stub={"colocated": script})
        connection.send(request("POST", COMPLETIONS, body))
        with pytest.raises((Broken, ConnectionError, ValueError)):
            pieces.extend(connection.pieces(connection.head()))
    seen = b"".join(pieces)
    if do != "reset":  # which may overtake what was sent
        assert b'" 2"' in seen
    assert b'" 3"' not in seen


def test_an_error_event_and_a_missing_end(new_stub: NewStub) -> None:
    engine = new_stub("colocated")
    for do, has_error, is_done in (("error_event", True, True), ("no_done", False, False)):
        engine.next({"do": do, "after_events": 2})
        with Connection(engine.port) as connection:
            connection.send(request("POST", CHAT, chat(stream=True, max_tokens=9)))
            stream = read_stream(connection.pieces(connection.head()))
        assert stream.has_first(2)
        assert (stream.error is not None, stream.done) == (has_error, is_done)


def test_idle_connections_are_closed_in_time(new_stub: NewStub) -> None:
    engine = new_stub("colocated", keep_alive_ms=100)
    with Connection(engine.port) as connection:
        assert connection.ask("POST", CHAT, chat()).status == 200
        assert connection.is_closed()
    assert engine.counts()["closed_idle"] >= 1


def test_a_client_that_leaves_is_seen(new_stub: NewStub) -> None:
    engine = new_stub("colocated")
    engine.next({"do": "stall", "after_events": 1})
    with Connection(engine.port) as connection:
        connection.send(request("POST", CHAT, chat(stream=True)))
        assert connection.head().status == 200
        assert engine.counts()["in_flight"] == 1
    assert engine.only()["outcome"] == "cancelled"
    assert engine.counts()["in_flight"] == 0


def test_an_encoder_reports_its_items(new_stub: NewStub) -> None:
    part = image("a", uuid="name")
    for options, body, same in (
        ({}, chat(part), True),
        ({}, chat(part, mm_processor_kwargs={"a": 1}), False),
        ({"derive_identifiers": 1}, chat(part), False),
    ):
        engine = new_stub("encoder", **options)
        params = raw_http.ask(engine.port, "POST", CHAT, body).json()["ec_transfer_params"]
        assert list(params.values()) == [
            {
                "state": "published",
                "item_indices": [0],
                "metadata": {"image_grid_thw": [1, 24, 32]},
            }
        ]
        assert (list(params) == ["name"]) is same


def test_a_misspelt_script_is_refused(new_stub: NewStub) -> None:
    engine = new_stub("colocated")
    for script in ({"do": "explode"}, {"afterevents": 1}, {"after_events": -1}, {"events": "1"}):
        body = json.dumps({"next": [script]}).encode()
        assert raw_http.ask(engine.port, "POST", "/stub", body).status == 400


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\nhost: a\n\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\nx",
    ],
)
def test_what_is_malformed_is_counted(new_stub: NewStub, data: bytes) -> None:
    engine = new_stub("colocated")
    with Connection(engine.port) as connection:
        connection.send(data + b"\r\n\r\n")
        assert connection.answer().status == 400
    assert engine.counts()["malformed"] == 1
