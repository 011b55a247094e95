"""The proxy is the trust boundary: clients can neither send nor see what proxy and engines say to
each other, and nobody gets a feature by a name."""

import hashlib
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from chat import CHAT, COMPLETIONS, RESPONSES, chat, completion, data_url, image
from raw_http import request
from setups import TOKEN, NewProxy, NewStub, Pair, Trio

PRIVATE = ("kv_transfer_params", "ec_transfer_params")


def uuid_of(url: str, tenant: str = "default", kind: str = "image_url") -> str:
    """As docs/protocols/serving.md says: tenant, type and the URL's JSON text."""
    text = b"\0".join([tenant.encode(), kind.encode(), json.dumps(url).encode()])
    return hashlib.sha256(text).hexdigest()[:32]


FORBIDDEN: dict[str, dict[str, Any]] = {
    "kv_transfer_params": {"kv_transfer_params": {"do_remote_prefill": True}},
    "empty_kv_transfer_params": {"kv_transfer_params": {}},
    "kv_transfer_params_as_text": {"kv_transfer_params": "x"},
    "ec_transfer_params": {"ec_transfer_params": {"a": {"state": "published"}}},
    "empty_ec_transfer_params": {"ec_transfer_params": {}},
}


@pytest.mark.parametrize("target", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("name", FORBIDDEN)
def test_transfer_parameters_of_a_caller_are_refused(pair: Pair, name: str, target: str) -> None:
    body = chat(**FORBIDDEN[name]) if target == CHAT else completion(**FORBIDDEN[name])
    answer = pair.proxy.ask("POST", target, body)
    assert answer.status == 400
    answer.error()
    assert pair.engine.requests() == []


def test_escaped_names_are_refused_as_well(pair: Pair) -> None:
    body = chat(kv_transfer_params={}).replace(b"kv_transfer", b"\\u006bv_transfer")
    assert b"kv_transfer" not in body
    assert pair.proxy.ask("POST", CHAT, body).status == 400
    assert pair.engine.requests() == []


def test_parameters_hidden_where_engines_look_too_are_refused(pair: Pair) -> None:
    hidden = {"kv_transfer_params": {"a": 1}}
    for body in (chat(extra_body=hidden), chat(vllm_xargs=hidden)):
        answer = pair.proxy.ask("POST", CHAT, body)
        received = pair.engine.requests()
        assert answer.status == 400 or received[-1]["kv_transfer_params"] is None


EMBEDS: dict[str, dict[str, Any]] = {
    "a_grid": {"type": "image_embeds", "image_embeds": {"image_grid_thw": [1, 24, 32]}},
    "a_grid_and_a_uuid": {
        "type": "image_embeds",
        "image_embeds": {"image_grid_thw": [1, 24, 32]},
        "uuid": uuid_of(data_url("victim")),
    },
    "nothing_but_a_uuid": {"type": "image_embeds", "image_embeds": None, "uuid": "x"},
    "an_image_without_media": {"type": "image_url", "image_url": None, "uuid": "x"},
    "an_image_left_out": {"type": "image_url", "uuid": "x"},
    "no_embeds": {"type": "image_embeds", "uuid": "x"},
}


@pytest.mark.parametrize("name", EMBEDS)
def test_media_that_is_only_a_reference_is_refused(trio: Trio, name: str) -> None:
    answer = trio.proxy.ask("POST", CHAT, chat(EMBEDS[name]))
    assert answer.status == 400, answer.body
    answer.error()
    for engine in trio.engines:
        assert engine.requests() == []


@pytest.mark.parametrize("target", [CHAT, COMPLETIONS, RESPONSES])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_sees_no_transfer_parameters(trio: Trio, target: str, stream: bool) -> None:
    bodies = {
        CHAT: chat(image("seen"), stream=stream),
        COMPLETIONS: completion(stream=stream),
        RESPONSES: json.dumps({"model": "stub", "input": "once", "stream": stream}).encode(),
    }
    body = bodies[target]
    with trio.proxy.connect() as connection:
        connection.send(request("POST", target, body))
        head = connection.head()
        said = b"".join(connection.pieces(head))
    assert head.status == 200, said
    for name in (*PRIVATE, "stub_of", "sluice_handoff"):
        assert name.encode() not in said, said
    assert b" 3" in said or target == RESPONSES


def test_stripping_leaves_the_rest_byte_for_byte(pair: Pair) -> None:
    bodies = {
        '{"a":1,"kv_transfer_params":{"x":[1,{"y":"}"}]},"z":2}': '{"a":1,"z":2}',
        '{"kv_transfer_params":null,"z" : 2}': '{"z" : 2}',
        '{"a":1,"ec_transfer_params":"\\"}"}': '{"a":1}',
        '{ "a" : 1.50, "ec_transfer_params" : { } }': '{ "a" : 1.50 }',
        '{"choices":[{"message":{"content":"kv_transfer_params"}}]}': (
            '{"choices":[{"message":{"content":"kv_transfer_params"}}]}'
        ),
    }
    for sent, seen in bodies.items():
        pair.engine.next({"body": sent})
        answer = pair.proxy.ask("POST", CHAT, chat())
        assert json.loads(answer.body) == json.loads(seen)
        squeezed = answer.body.decode().replace(" ", "")
        assert squeezed == seen.replace(" ", "")
        assert "1.50" in squeezed or "1.50" not in sent


def test_media_is_named_by_its_own_digest(trio: Trio) -> None:
    assert trio.proxy.ask("POST", CHAT, chat(image("one"))).status == 200
    part = trio.encoder.only()["parts"][0]
    assert part == {
        "type": "image_url",
        "uuid": uuid_of(data_url("one")),
        "remote": "",
        "has_media": True,
    }


def test_a_callers_uuid_is_never_the_name(trio: Trio) -> None:
    victim = uuid_of(data_url("victim"))
    assert trio.proxy.ask("POST", CHAT, chat(image("mine", uuid=victim))).status == 200
    for engine in trio.engines:
        for part in engine.only()["parts"]:
            assert part["uuid"] == uuid_of(data_url("mine"))


def test_an_alias_is_bound_to_the_first_content_seen(trio: Trio) -> None:
    assert trio.proxy.ask("POST", CHAT, chat(image("first", uuid="cat"))).status == 200
    assert trio.proxy.ask("POST", CHAT, chat(image("first", uuid="cat"))).status == 200
    answer = trio.proxy.ask("POST", CHAT, chat(image("second", uuid="cat")))
    assert answer.status == 400
    assert "uuid" in answer.error()["message"]
    assert trio.proxy.ask("POST", CHAT, chat(image("second", uuid="dog"))).status == 200


def test_one_alias_for_two_contents_of_one_request_is_refused(trio: Trio) -> None:
    parts = [image("left", uuid="both"), image("right", uuid="both")]
    assert trio.proxy.ask("POST", CHAT, chat(*parts)).status == 400
    for engine in trio.engines:
        assert engine.requests() == []


# Spellings of a chat request that an engine may take for one.
DISGUISES = [
    *("/v1/chat/%63ompletions", "/v1/chat/completions/", "/v1//chat/completions"),
    *("/v1/./chat/completions", "/v1/x/../chat/completions", "/v1/chat/completions?x=1"),
    *("/v1/chat%2fcompletions", "/v1/Chat/completions", "/v1/chat/completions;a=b"),
    *("/v1/chat/completions/batch", "/v1/messages", "/v1/embeddings"),
]


@pytest.mark.parametrize("target", DISGUISES)
def test_no_other_spelling_of_a_route_is_a_way_around(pair: Pair, target: str) -> None:
    assert pair.proxy.ask("POST", target, chat(kv_transfer_params={})).status in {400, 404}
    assert pair.proxy.ask("POST", target, chat(EMBEDS["a_grid_and_a_uuid"])).status in {400, 404}
    assert pair.engine.requests() == []
    pair.proxy.ask("POST", target, chat(image("mine", uuid="name-of-a-victim")))
    assert "name-of-a-victim" not in json.dumps(pair.engine.requests())


INPUT_PARTS: dict[str, dict[str, Any]] = {
    "an_image": {"type": "input_image", "image_url": data_url("mine"), "detail": "auto"},
    "no_image": {"type": "input_image", "image_url": None, "detail": "auto"},
    "a_chat_part": image("mine"),
    "a_reference": {"type": "image_embeds", "image_embeds": {"image_grid_thw": [1, 24, 32]}},
}


@pytest.mark.parametrize("name", INPUT_PARTS)
def test_responses_parts_cannot_be_named_by_a_caller(trio: Trio, name: str) -> None:
    part = {**INPUT_PARTS[name], "uuid": "name-of-a-victim"}
    body = {"model": "stub", "input": [{"role": "user", "content": [part]}]}
    answer = trio.proxy.ask("POST", RESPONSES, json.dumps(body).encode())
    assert answer.status == 400 or name in {"an_image", "a_chat_part"}
    for engine in trio.engines:
        assert "name-of-a-victim" not in json.dumps(engine.requests())


def test_a_remote_url_gets_no_uuid(trio: Trio) -> None:
    part = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/cat.png"}}
    assert trio.proxy.ask("POST", CHAT, chat(part)).status == 200
    assert trio.encoder.only()["parts"][0]["uuid"] == ""


def test_tenants_share_no_names(new_stub: NewStub, new_proxy: NewProxy) -> None:
    encoder, engine = new_stub("encoder"), new_stub("prefill_decode")
    proxy = new_proxy(encoder, engine, tenant="other")
    assert proxy.ask("POST", CHAT, chat(image("one"))).status == 200
    assert encoder.only()["parts"][0]["uuid"] == uuid_of(data_url("one"), "other")


def test_headers_of_a_client_that_concern_only_its_connection_stay(pair: Pair) -> None:
    headers = {"connection": "keep-alive, x-secret", "x-secret": "1", "te": "trailers"}
    assert pair.proxy.ask("POST", CHAT, chat(), headers).status == 200
    names = {name for name, _ in pair.engine.only()["headers"]}
    assert not names & {"x-secret", "te", "upgrade"}


def other_address() -> str:
    """An address of this machine that is not a loopback one; empty when it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return ""
        address = str(probe.getsockname()[0])
        return "" if address.startswith("127.") else address


ROUTES = [
    *(("POST", target) for target in (CHAT, COMPLETIONS, RESPONSES, "/v1/embeddings")),
    *(("GET", target) for target in ("/v1/models", "/v1/instances", "/metrics")),
    *(("POST", target) for target in ("/v1/instances",)),
]
WRONG = [None, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, "Bearer ", "Basic x"]
RIGHT = {"authorization": f"Bearer {TOKEN}"}


def test_with_a_token_every_route_but_health_asks_for_it(
    new_stub: NewStub, new_proxy: NewProxy, token_file: Path
) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(engine, token_file=token_file, require_token="always")
    for method, target in ROUTES:
        for given in WRONG:
            headers = {"authorization": given} if given else {}
            answer = proxy.ask(method, target, chat() if method == "POST" else b"", headers)
            assert answer.status == 401, (target, given)
            answer.error()
    for target in ("/livez", "/readyz"):
        assert proxy.ask("GET", target).status == 200
    assert engine.requests() == []
    assert proxy.ask("POST", CHAT, chat(), RIGHT).status == 200
    assert TOKEN not in json.dumps(engine.requests()), "engines do not need the clients' token"
    assert TOKEN not in proxy.ask("GET", "/metrics", headers=RIGHT).body.decode()
    assert TOKEN not in proxy.log()


def test_beyond_loopback_the_token_is_always_needed(
    new_stub: NewStub, new_proxy: NewProxy, token_file: Path
) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(engine, host="0.0.0.0", token_file=token_file)
    address = other_address()
    for method, target in ROUTES:
        body = chat() if method == "POST" else b""
        with proxy.connect(host=address or "127.0.0.1") as connection:
            assert connection.ask(method, target, body).status == 401, target
    with proxy.connect(host=address or "127.0.0.1") as connection:
        assert connection.ask("GET", "/livez").status == 200
        assert connection.ask("POST", CHAT, chat(), RIGHT).status == 200


def test_without_a_token_nobody_sees_or_changes_instances(pair: Pair) -> None:
    for method in ("GET", "POST", "DELETE"):
        answer = pair.proxy.ask(method, "/v1/instances", b"{}" if method != "GET" else b"")
        assert answer.status == 403
        answer.error()
