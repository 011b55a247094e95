"""Malformed and conflicting HTTP is answered 400 and the connection closed; engines see nothing."""

import pytest
from chat import CHAT, chat
from raw_http import Broken, request
from setups import Pair

BODY = chat(text="smuggled")
LENGTH = f"content-length: {len(BODY)}\r\n".encode()
CHUNKED = b"transfer-encoding: chunked\r\n"
CHUNKS = f"{len(BODY):x}\r\n".encode() + BODY + b"\r\n0\r\n\r\n"


def post(fields: bytes, body: bytes = BODY, line: bytes = b"POST " + CHAT.encode()) -> bytes:
    return line + b" HTTP/1.1\r\nhost: a\r\n" + fields + b"\r\n" + body


def get(fields: bytes = b"host: a\r\n", line: bytes = b"GET /v1/models HTTP/1.1") -> bytes:
    return line + b"\r\n" + fields + b"\r\n"


CASES: dict[str, bytes] = {
    # two answers to the question where the body ends
    "two_lengths_that_differ": post(LENGTH + b"content-length: 3\r\n"),
    "two_lengths_that_agree": post(LENGTH + LENGTH),
    "a_list_of_lengths": post(f"content-length: {len(BODY)}, {len(BODY)}\r\n".encode()),
    "length_and_chunked": post(LENGTH + CHUNKED, CHUNKS),
    "chunked_and_length": post(CHUNKED + LENGTH, CHUNKS),
    "chunked_twice": post(CHUNKED + CHUNKED, CHUNKS),
    "chunked_twice_in_a_list": post(b"transfer-encoding: chunked, chunked\r\n", CHUNKS),
    "chunked_is_not_last": post(b"transfer-encoding: chunked, identity\r\n", CHUNKS),
    "chunked_after_gzip": post(b"transfer-encoding: gzip, chunked\r\n", CHUNKS),
    "an_unknown_coding": post(b"transfer-encoding: xchunked\r\n", CHUNKS),
    "a_coding_with_a_tab_before": post(b"transfer-encoding: \x0bchunked\r\n", CHUNKS),
    "an_empty_coding": post(b"transfer-encoding: \r\n", CHUNKS),
    "identity_coding": post(b"transfer-encoding: identity\r\n" + LENGTH),
    # lengths that are no numbers
    "a_negative_length": post(b"content-length: -1\r\n"),
    "a_length_with_a_sign": post(f"content-length: +{len(BODY)}\r\n".encode()),
    "a_hexadecimal_length": post(f"content-length: 0x{len(BODY):x}\r\n".encode()),
    "an_empty_length": post(b"content-length: \r\n"),
    "a_length_with_a_space_inside": post(b"content-length: 1 0\r\n"),
    "a_length_with_letters": post(b"content-length: 12ab\r\n"),
    "a_fractional_length": post(b"content-length: 12.0\r\n"),
    "a_length_beyond_64_bits": post(b"content-length: 18446744073709551617\r\n"),
    "a_length_of_99_digits": post(b"content-length: " + b"9" * 99 + b"\r\n"),
    # chunks
    "a_chunk_size_beyond_64_bits": post(CHUNKED, b"10000000000000001\r\n" + BODY),
    "a_chunk_size_of_99_digits": post(CHUNKED, b"f" * 99 + b"\r\n" + BODY),
    "a_chunk_size_that_is_no_number": post(CHUNKED, b"zz\r\n" + BODY),
    "a_negative_chunk_size": post(CHUNKED, b"-1\r\n" + BODY),
    "a_chunk_size_with_a_sign": post(CHUNKED, b"+5\r\nhello\r\n0\r\n\r\n"),
    "a_chunk_size_with_0x": post(CHUNKED, b"0x5\r\nhello\r\n0\r\n\r\n"),
    "an_empty_chunk_size": post(CHUNKED, b"\r\nhello\r\n0\r\n\r\n"),
    "a_chunk_size_with_a_space_before": post(CHUNKED, b" 5\r\nhello\r\n0\r\n\r\n"),
    "a_chunk_that_is_longer_than_said": post(CHUNKED, b"5\r\nhello, world\r\n0\r\n\r\n"),
    "a_chunk_without_its_line_end": post(CHUNKED, b"5\r\nhello0\r\n\r\n"),
    "a_chunk_size_ended_by_a_bare_lf": post(CHUNKED, b"5\nhello\r\n0\r\n\r\n"),
    "a_chunk_ended_by_a_bare_lf": post(CHUNKED, b"5\r\nhello\n0\r\n\r\n"),
    "nul_in_a_chunk_size": post(CHUNKED, b"5\x00\r\nhello\r\n0\r\n\r\n"),
    "nul_in_a_chunk_extension": post(CHUNKED, b"5;a=\x00\r\nhello\r\n0\r\n\r\n"),
    "a_bare_cr_in_a_chunk_extension": post(CHUNKED, b"5;a=\rb\r\nhello\r\n0\r\n\r\n"),
    "a_trailer_that_is_no_field": post(CHUNKED, b"5\r\nhello\r\n0\r\nno field\r\n\r\n"),
    # lines
    "a_bare_lf_after_the_request_line": b"GET /v1/models HTTP/1.1\nhost: a\r\n\r\n",
    "a_bare_lf_after_a_field": b"GET /v1/models HTTP/1.1\r\nhost: a\nx: y\r\n\r\n",
    "bare_lfs_everywhere": b"GET /v1/models HTTP/1.1\nhost: a\n\n",
    "a_bare_cr_in_a_field": get(b"host: a\r\nx: a\rb\r\n"),
    "a_bare_cr_in_the_request_line": get(line=b"GET /v1/\rmodels HTTP/1.1"),
    "a_folded_field": get(b"host: a\r\nx: y\r\n folded\r\n"),
    "a_folded_field_with_a_tab": get(b"host: a\r\nx: y\r\n\tfolded\r\n"),
    "a_field_that_begins_with_a_space": get(b" host: a\r\n"),
    "a_space_before_the_colon": get(b"host : a\r\n"),
    "a_field_without_a_colon": get(b"host: a\r\nno colon here\r\n"),
    "a_field_without_a_name": get(b"host: a\r\n: value\r\n"),
    "a_field_name_with_a_space": get(b"host: a\r\nx y: z\r\n"),
    "a_field_name_with_a_control_byte": get(b"host: a\r\nx\x01y: z\r\n"),
    "a_field_name_beyond_ascii": get(b"host: a\r\nx\xe9: z\r\n"),
    "nul_in_a_field_name": get(b"host: a\r\nx\x00: y\r\n"),
    "nul_in_a_field_value": get(b"host: a\r\nx: a\x00b\r\n"),
    "a_control_byte_in_a_field_value": get(b"host: a\r\nx: a\x02b\r\n"),
    "delete_in_a_field_value": get(b"host: a\r\nx: a\x7fb\r\n"),
    # request lines
    "nul_in_the_target": get(line=b"GET /v1/mod\x00els HTTP/1.1"),
    "a_control_byte_in_the_target": get(line=b"GET /v1/mod\x01els HTTP/1.1"),
    "a_space_in_the_target": get(line=b"GET /v1/mod els HTTP/1.1"),
    "no_target": get(line=b"GET HTTP/1.1"),
    "no_version": get(line=b"GET /v1/models"),
    "two_spaces_before_the_target": get(line=b"GET  /v1/models HTTP/1.1"),
    "two_spaces_after_the_target": get(line=b"GET /v1/models  HTTP/1.1"),
    "a_tab_in_the_request_line": get(line=b"GET\t/v1/models HTTP/1.1"),
    "a_space_before_the_method": get(line=b" GET /v1/models HTTP/1.1"),
    "a_method_with_a_control_byte": get(line=b"GE\x01T /v1/models HTTP/1.1"),
    "a_version_that_is_none": get(line=b"GET /v1/models HTTP/x"),
    "a_version_in_lower_case": get(line=b"GET /v1/models http/1.1"),
    "a_version_with_a_long_number": get(line=b"GET /v1/models HTTP/1.10"),
    "version_2_in_text": get(line=b"GET /v1/models HTTP/2.0"),
    "the_version_glued_to_the_target": get(line=b"GET /v1/modelsHTTP/1.1"),
    "a_target_without_a_slash": get(line=b"GET v1/models HTTP/1.1"),
    # hosts
    "no_host": get(b"x: y\r\n"),
    "two_hosts": get(b"host: a\r\nhost: b\r\n"),
    # other protocols
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64 + b"\r\n\r\n",
    "http_2_preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "noise": bytes(range(128, 256)) + b"\r\n\r\n",
}


def test_there_are_more_than_sixty_cases() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", CASES)
def test_a_malformed_request_is_400_and_the_end(pair: Pair, name: str) -> None:
    with pair.proxy.connect(timeout_s=5) as connection:
        # What follows must not be taken for a request.
        connection.send(CASES[name] + request("GET", "/v1/smuggled"))
        try:
            answer = connection.answer()
        except (Broken, ConnectionError):
            pass  # a peer that speaks no HTTP may be left without an answer
        else:
            assert answer.status == 400, answer
        assert connection.is_closed()
    # An ordinary request is still answered, and is all that the engine has seen.
    assert pair.proxy.ask("POST", CHAT, chat(text="ordinary")).status == 200
    received = pair.engine.requests()
    assert [each["path"] for each in received] == [CHAT]
    assert "ordinary" in received[0]["body"]
    assert pair.engine.counts()["malformed"] == 0


def test_most_malformed_requests_are_told_why(pair: Pair) -> None:
    with pair.proxy.connect() as connection:
        connection.send(CASES["two_lengths_that_differ"])
        answer = connection.answer()
        assert answer.status == 400
        assert answer.header("connection") == "close"
        assert connection.is_closed()


WELL_FORMED = {
    "names_in_any_case": post(f"Content-LENGTH: {len(BODY)}\r\n".encode()),
    "chunked_in_any_case": post(b"Transfer-Encoding: CHUNKED\r\n", CHUNKS),
    "space_around_a_value": post(f"content-length:\t {len(BODY)} \t\r\n".encode()),
    "chunk_extensions": post(
        CHUNKED, f"{len(BODY):X};name=value\r\n".encode() + BODY + b"\r\n0\r\n\r\n"
    ),
    "trailers": post(CHUNKED, CHUNKS[:-2] + b"x-trailer: 1\r\n\r\n"),
    "bytes_beyond_ascii_in_a_value": get(b"host: a\r\nx: \xe9\r\n"),
    "leading_zeros_in_a_length": post(f"content-length: 00{len(BODY)}\r\n".encode()),
    "leading_zeros_in_a_chunk_size": post(CHUNKED, b"000" + CHUNKS),
}


@pytest.mark.parametrize("name", WELL_FORMED)
def test_what_is_unusual_but_right_is_answered(pair: Pair, name: str) -> None:
    with pair.proxy.connect() as connection:
        connection.send(WELL_FORMED[name])
        assert connection.answer().status == 200
        assert connection.ask("GET", "/v1/models").status == 200


def test_a_request_that_comes_byte_by_byte_is_answered(pair: Pair) -> None:
    with pair.proxy.connect() as connection:
        for byte in post(CHUNKED, CHUNKS):
            connection.send(bytes([byte]))
        assert connection.answer().status == 200
    assert pair.engine.only()["body_bytes"] == len(BODY)


def test_pipelined_requests_are_answered_in_order(pair: Pair) -> None:
    with pair.proxy.connect() as connection:
        connection.send(b"".join(request("POST", CHAT, chat(max_tokens=n)) for n in range(1, 6)))
        for count in range(1, 6):
            usage = connection.answer().json()["usage"]
            assert usage["completion_tokens"] == count
