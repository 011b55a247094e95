"""Every limit on what a client may send is said, at once, and nothing of it reaches an engine."""

import json

import pytest
from chat import CHAT, chat
from raw_http import Broken, request
from setups import NewProxy, NewStub, Pair
from waiting import until

MIB = 1 << 20


def test_a_header_over_16_kib_is_refused(pair: Pair) -> None:
    with pair.proxy.connect() as connection:
        connection.send(request("POST", CHAT, chat(), {"x-long": "a" * 17_000}))
        assert connection.answer().status in {400, 431}
        assert connection.is_closed()
    assert pair.engine.requests() == []


def test_a_header_that_never_ends_is_refused_when_it_is_too_long(pair: Pair) -> None:
    with pair.proxy.connect() as connection:
        connection.send(b"GET /v1/models HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 17_000)
        assert connection.answer().status in {400, 431}
        assert connection.is_closed()


def test_100_fields_are_taken_and_101_are_not(pair: Pair) -> None:
    def fields(count: int) -> bytes:
        more = b"".join(b"x-%d: 1\r\n" % n for n in range(count - 1))
        return b"GET /v1/models HTTP/1.1\r\nhost: a\r\n" + more + b"\r\n"

    with pair.proxy.connect() as connection:
        connection.send(fields(100))
        assert connection.answer().status == 200
        connection.send(fields(101))
        assert connection.answer().status in {400, 431}
        assert connection.is_closed()


def test_a_long_target_is_refused(pair: Pair) -> None:
    with pair.proxy.connect() as connection:
        connection.send(request("GET", "/v1/models?" + "a" * 17_000))
        assert connection.answer().status in {400, 414, 431}
        assert connection.is_closed()


def test_a_body_over_64_mib_is_refused_before_it_is_sent(pair: Pair) -> None:
    with pair.proxy.connect() as connection:
        connection.send(request("POST", CHAT, headers={"content-length": str(64 * MIB + 1)}))
        answer = connection.answer()
        assert answer.status == 413
        answer.error()
        assert connection.is_closed()
    assert pair.engine.requests() == []


def test_a_chunked_body_is_refused_when_it_grows_too_large(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(engine, body_bytes_max="1MiB")
    with proxy.connect() as connection:
        chunk = b"40000\r\n" + b" " * 0x40000 + b"\r\n"
        connection.send(
            request("POST", CHAT, headers={"transfer-encoding": "chunked"}).replace(
                b"content-length: 0\r\n", b""
            )
        )
        try:
            for _ in range(8):
                connection.send(chunk)
        except ConnectionError:
            pass  # it has stopped listening, which is its right
        try:
            assert connection.answer().status == 413
        except (Broken, ConnectionError):
            assert proxy.is_alive()
    assert engine.requests() == []
    assert proxy.ask("POST", CHAT, chat()).status == 200


def test_expect_continue_is_answered_before_the_body(pair: Pair) -> None:
    body = chat()
    with pair.proxy.connect() as connection:
        head = {"content-length": str(len(body)), "expect": "100-continue"}
        connection.send(request("POST", CHAT, headers=head))
        assert connection.head().status == 100
        connection.send(body)
        assert connection.answer().status == 200


def test_expect_continue_of_a_body_that_is_too_large_is_refused(pair: Pair) -> None:
    with pair.proxy.connect() as connection:
        head = {"content-length": str(64 * MIB + 1), "expect": "100-continue"}
        connection.send(request("POST", CHAT, headers=head))
        assert connection.answer().status == 413


def nested(depth: int) -> bytes:
    """An object in which arrays reach `depth` levels in all."""
    return chat(metadata=0).replace(
        b'"metadata": 0', b'"metadata": %b0%b' % (b"[" * (depth - 1), b"]" * (depth - 1))
    )


def test_json_may_be_64_deep_and_not_65(pair: Pair) -> None:
    assert pair.proxy.ask("POST", CHAT, nested(64)).status == 200
    answer = pair.proxy.ask("POST", CHAT, nested(65))
    assert answer.status == 400
    answer.error()
    assert len(pair.engine.requests()) == 1


def test_json_that_is_very_deep_is_refused(pair: Pair) -> None:
    assert pair.proxy.ask("POST", CHAT, nested(1_000_000)).status == 400
    assert pair.engine.requests() == []


NOT_JSON = {
    "nothing": b"",
    "half_an_object": chat()[:-1],
    "an_array": b"[]",
    "a_number": b"1",
    "two_objects": chat() + chat(),
    "text_behind_it": chat() + b"x",
    "a_comma_too_many": chat()[:-1] + b",}",
    "no_quotes": b"{model: 1}",
    "not_utf_8": chat().replace(b"what", b"\xff\xfe"),
    "a_control_byte_in_a_string": chat().replace(b"what", b"wh\x01t"),
    "nul": chat() + b"\x00",
    "half_a_surrogate": chat().replace(b"what", b"\\ud800"),
    "an_unknown_escape": chat().replace(b"what", b"\\x"),
    "messages_twice": chat()[:-1] + b', "messages": []}',
    "model_twice": chat()[:-1] + b', "model": "other"}',
    "parts_that_are_numbers": json.dumps(
        {"model": "stub", "messages": [{"role": "user", "content": [1]}]}
    ).encode(),
    "messages_that_are_an_object": json.dumps({"model": "stub", "messages": {}}).encode(),
}


@pytest.mark.parametrize("name", NOT_JSON)
def test_what_is_not_a_request_is_400_with_an_openai_error(pair: Pair, name: str) -> None:
    with pair.proxy.connect() as connection:
        answer = connection.ask("POST", CHAT, NOT_JSON[name])
        assert answer.status == 400, answer
        answer.error()
        # The request was well-formed HTTP, so its connection goes on.
        assert connection.ask("GET", "/v1/models").status == 200
    assert pair.engine.requests() == []


def test_what_does_not_exist_is_404_and_a_wrong_method_405(pair: Pair) -> None:
    answer = pair.proxy.ask("GET", "/nowhere")
    assert answer.status == 404
    answer.error()
    assert pair.proxy.ask("DELETE", CHAT).status in {404, 405}
    assert pair.engine.requests() == []


def test_connections_beyond_the_limit_are_closed_and_the_others_served(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(engine, connections_max=20)
    held = [proxy.connect() for _ in range(20)]
    try:
        assert held[0].ask("POST", CHAT, chat()).status == 200
        with proxy.connect() as extra:
            try:
                extra.send(request("GET", "/livez"))
                assert extra.answer().status == 503
            except (Broken, ConnectionError):
                pass  # closed, which says the same
        assert held[19].ask("POST", CHAT, chat()).status == 200
    finally:
        for connection in held:
            connection.close()

    def answers() -> bool:
        try:
            return proxy.ask("GET", "/livez").status == 200
        except (Broken, ConnectionError):
            return False

    until(answers, "there is room again")
