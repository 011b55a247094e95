"""What an engine says reaches the client byte for byte, and what a client says the engine."""

import json

import pytest
from chat import CHAT, COMPLETIONS, RESPONSES, chat, completion
from raw_http import request
from setups import NewProxy, NewStub, Pair, Trio

WHOLE = {
    "usage": '{"id":"x","choices":[],"usage":{"prompt_tokens":3,"prompt_tokens_details":null}}',
    "tools": (
        '{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":'
        '"call_1","type":"function","function":{"name":"f","arguments":"{\\"a\\": 1.0}"}}]},'
        '"finish_reason":"tool_calls"}]}'
    ),
    "logprobs": (
        '{"choices":[{"index":0,"logprobs":{"content":[{"token":"\\u00e9","logprob":-0.10000000149,'
        '"bytes":[195,169],"top_logprobs":[]}]},"text":"\\u00e9"}]}'
    ),
    "spaces": '{ "choices" : [ ] ,\n "x" : 1e-7 }\n',
    "numbers": '{"choices":[],"big":123456789012345678901234567890,"small":1.0e-400}',
    "text": '{"choices":[{"message":{"content":"\\ud83d\\ude00 \\u2028 \\" \\\\ data: [DONE]"}}]}',
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("target", [CHAT, COMPLETIONS, RESPONSES])
def test_a_whole_answer_is_relayed_byte_for_byte(pair: Pair, name: str, target: str) -> None:
    pair.engine.next({"body": WHOLE[name], "path": target})
    body = json.dumps({"model": "stub", "input": "x", "prompt": "x"}).encode()
    answer = pair.proxy.ask("POST", target, chat() if target == CHAT else body)
    assert answer.status == 200
    assert answer.body.decode() == WHOLE[name]
    assert answer.header("content-type") == "application/json"


STREAMS = {
    "tools": [
        'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}\n\n',
        'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":'
        '{"name":"f","arguments":""}}]}}]}\n\n',
        'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":'
        '{"arguments":"{\\"a\\""}}]}}]}\n\n',
        'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n',
        "data: [DONE]\n\n",
    ],
    "nothing_but_a_reason": [
        'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n',
        'data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"length"}]}\n\n',
        "data: [DONE]\n\n",
    ],
    "usage_at_each_event": [
        'data: {"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"total_tokens":1}}\n\n',
        'data: {"choices":[{"index":0,"delta":{"content":"b"}}],"usage":{"total_tokens":2}}\n\n',
        'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
        'data: {"choices":[],"usage":{"total_tokens":2}}\n\n',
        "data: [DONE]\n\n",
    ],
    "reasoning": [
        'data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}\n\n',
        'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n',
        "data: [DONE]\n\n",
    ],
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_relayed_byte_for_byte(trio: Trio, name: str) -> None:
    body = chat(stream=True, stub={"decode": {"chunks": STREAMS[name]}})
    with trio.proxy.connect() as connection:
        connection.send(request("POST", CHAT, body))
        said = b"".join(connection.pieces(connection.head())).decode()
    assert said == "".join(STREAMS[name])


def test_parameters_are_stripped_from_the_events_of_a_stream(pair: Pair) -> None:
    chunks = [
        'data: {"choices":[{"index":0,"delta":{"content":"a"}}],"kv_transfer_params":null}\n\n',
        'data: {"kv_transfer_params":{"a":{"b":"}"}},"choices":[{"index":0,"delta":{},'
        '"finish_reason":"stop"}],"ec_transfer_params":{"x":[1]}}\n\n',
        "data: [DONE]\n\n",
    ]
    body = chat(stream=True, stub={"colocated": {"chunks": chunks}})
    with pair.proxy.connect() as connection:
        connection.send(request("POST", CHAT, body))
        said = b"".join(connection.pieces(connection.head())).decode()
    assert said == (
        'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
        'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
        "data: [DONE]\n\n"
    )


def test_a_request_reaches_the_engine_as_it_was_sent(pair: Pair) -> None:
    body = (
        b'{ "model" : "stub",\n "messages":[{"role":"user","content":"\\u00e9 \\ud83d\\ude00"}],'
        b'"temperature" : 1.0e-1, "logit_bias":{"1":-100}, "big":1234567890123456789 }'
    )
    assert pair.proxy.ask("POST", CHAT, body).status == 200
    assert pair.engine.only()["body"].encode() == body


def test_other_routes_are_passed_untouched(trio: Trio) -> None:
    body = b'{ "input" : ["a", "b"],\n "kv":1 }'
    answer = trio.proxy.ask("POST", "/v1/embeddings?x=1", body)
    assert answer.status == 200
    assert answer.body == body
    assert trio.decode.only()["path"] == "/v1/embeddings?x=1"
    assert trio.encoder.requests() == trio.prefill.requests() == []


def test_models_are_listed(trio: Trio) -> None:
    answer = trio.proxy.ask("GET", "/v1/models")
    assert answer.status == 200
    assert [model["id"] for model in answer.json()["data"]] == ["stub"]


@pytest.mark.parametrize("stream", [True, False])
def test_several_choices_come_whole(trio: Trio, stream: bool) -> None:
    with trio.proxy.connect() as connection:
        connection.send(request("POST", CHAT, chat(n=3, stream=stream)))
        body = b"".join(connection.pieces(connection.head())).decode()
    for index in range(3):
        assert f'"index":{index}' in body
    assert trio.decode.only()["kv_transfer_params"].get("keep") is True


def test_ids_are_taken_or_made_and_returned(pair: Pair) -> None:
    answer = pair.proxy.ask("POST", CHAT, chat(), {"x-request-id": "mine-1"})
    assert answer.header("x-request-id") == "mine-1"
    made = {pair.proxy.ask("POST", CHAT, chat()).header("x-request-id") for _ in range(5)}
    assert len(made) == 5
    assert None not in made
    refused = pair.proxy.ask("POST", CHAT, b"{", {"x-request-id": "mine-2"})
    assert refused.status == 400
    assert refused.header("x-request-id") == "mine-2"


def test_a_request_id_that_is_not_fit_for_a_header_or_a_log_is_replaced(pair: Pair) -> None:
    for odd in ("a" * 5_000, "a b\tc", "x\xe9"):
        answer = pair.proxy.ask("POST", CHAT, chat(), {"x-request-id": odd})
        assert answer.status == 200
        assert answer.header("x-request-id") not in {None, odd}


def test_live_requests_with_the_same_id_are_told_apart(trio: Trio) -> None:
    """Both are answered, each with its own; engines never see one id twice at a time."""
    script = {"decode": {"events": 5, "interval_ms": 100}}
    headers = {"x-request-id": "twin"}
    with trio.proxy.connect() as first, trio.proxy.connect() as second:
        for connection, text in ((first, "one"), (second, "two")):
            connection.send(
                request("POST", CHAT, chat(text=text, stream=True, stub=script), headers)
            )
        for connection in (first, second):
            body = b"".join(connection.pieces(connection.head()))
            assert b" 4" in body
            assert b"[DONE]" in body
    seen = [dict(each["headers"]).get("x-request-id") for each in trio.decode.requests()]
    assert len(seen) == 2
    assert len(set(seen)) == 2


def test_a_trace_is_passed_on(trio: Trio) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert trio.proxy.ask("POST", CHAT, chat(), {"traceparent": trace}).status == 200
    for engine in (trio.prefill, trio.decode):
        sent = dict(engine.only()["headers"])["traceparent"]
        assert sent.split("-")[1] == trace.split("-")[1]


def test_completions_go_through_prefill_and_decode(trio: Trio) -> None:
    answer = trio.proxy.ask("POST", COMPLETIONS, completion())
    assert answer.json()["choices"][0]["text"] == " 0 1 2 3"
    prefill, decode = trio.prefill.only(), trio.decode.only()
    name = prefill["kv_transfer_params"]["sluice_handoff"]
    assert decode["kv_transfer_params"]["sluice_handoff"] == name


def test_an_ipv6_engine_is_reached(new_stub: NewStub, new_proxy: NewProxy) -> None:
    engine = new_stub("colocated", host="::1")
    proxy = new_proxy(f"colocated=http://[::1]:{engine.port}")
    assert proxy.ask("POST", CHAT, chat()).status == 200
