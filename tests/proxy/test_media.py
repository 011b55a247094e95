"""Media is encoded once, wherever it stands, by the encoders; the others get a reference."""

import asyncio
import json
import threading
from typing import Any

import pytest
from arena_daemon import ArenaDaemon
from chat import CHAT, chat, data_url, image, message
from crowd import Client
from proxy_process import Proxy
from raw_http import request
from setups import NewProxy, NewStub, Trio
from stub_engine import StubEngine
from waiting import until

AUDIO = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
VIDEO = {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}
SOUND = {"type": "audio_url", "audio_url": {"url": "data:audio/wav;base64,AAAB"}}


def test_a_request_goes_through_the_three_stages(trio: Trio) -> None:
    answer = trio.proxy.ask("POST", CHAT, chat(image("a cat"), temperature=0.25))
    assert answer.status == 200, answer.body
    assert answer.json()["choices"][0]["message"]["content"] == " 0 1 2 3"
    encode, prefill, decode = (engine.only() for engine in trio.engines)

    asked = json.loads(encode["body"])
    assert asked["model"] == "stub"
    assert asked["max_tokens"] == 1
    assert len(asked["messages"]) == 1
    assert [part["type"] for part in asked["messages"][0]["content"]] == ["image_url"]
    assert "temperature" not in asked
    uuid = encode["parts"][0]["uuid"]

    for each in (prefill, decode):
        assert each["parts"] == [
            {"type": "image_embeds", "uuid": uuid, "remote": "", "has_media": False}
        ]
        assert list(each["ec_transfer_params"]) == [uuid]
        assert each["ec_transfer_params"][uuid]["metadata"] == {"image_grid_thw": [1, 24, 32]}
        assert json.loads(each["body"])["temperature"] == 0.25

    handoff = prefill["kv_transfer_params"]["sluice_handoff"]
    assert len(handoff) == 32
    assert prefill["kv_transfer_params"]["do_remote_decode"] is True
    assert prefill["max_tokens"] == 1
    assert prefill["stream"] is False
    assert decode["kv_transfer_params"]["do_remote_prefill"] is True
    assert decode["kv_transfer_params"]["sluice_handoff"] == handoff
    assert decode["max_tokens"] == 4


def test_prefill_is_asked_without_what_concerns_the_answer(trio: Trio) -> None:
    more: dict[str, Any] = {
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 9,
        "min_tokens": 2,
        "n": 2,
        "logprobs": True,
        "top_logprobs": 3,
        "seed": 7,
    }
    with trio.proxy.connect() as connection:
        connection.send(request("POST", CHAT, chat(**more)))
        assert b"[DONE]" in b"".join(connection.pieces(connection.head()))
    sent = json.loads(trio.prefill.only()["body"])
    dropped = {name for name in more if name not in {"stream", "seed"}}
    assert not dropped & set(sent)
    assert sent["stream"] is False
    assert sent["max_tokens"] == 1
    assert sent["seed"] == 7
    answered = json.loads(trio.decode.only()["body"])
    assert {name: answered[name] for name in more} == more


def test_each_attempt_at_a_prefill_has_a_name_of_its_own(trio: Trio) -> None:
    for _ in range(20):
        assert trio.proxy.ask("POST", CHAT, chat()).status == 200
    names = [r["kv_transfer_params"]["sluice_handoff"] for r in trio.prefill.requests()]
    assert len(set(names)) == 20
    assert all(set(name) <= set("0123456789abcdef") for name in names)


def test_text_alone_skips_the_encoder(trio: Trio) -> None:
    assert trio.proxy.ask("POST", CHAT, chat()).status == 200
    assert trio.encoder.requests() == []


@pytest.mark.parametrize("part", [AUDIO, VIDEO, SOUND], ids=lambda part: str(part["type"]))
def test_every_kind_of_media_is_encoded(trio: Trio, part: dict[str, object]) -> None:
    answer = trio.proxy.ask("POST", CHAT, chat(part))
    assert answer.status == 200, answer.body
    assert trio.encoder.only()["parts"][0]["type"] == part["type"]


def test_media_is_found_anywhere_in_the_messages(trio: Trio) -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        message(image("early"), text="one"),
        {"role": "assistant", "content": "a cat"},
        {"role": "user", "content": [{"type": "text", "text": "x"}, image("late"), image("last")]},
    ]
    body = json.dumps({"model": "stub", "messages": messages, "max_tokens": 4}).encode()
    assert trio.proxy.ask("POST", CHAT, body).status == 200
    assert len(trio.encoder.requests()) == 3
    sent = json.loads(trio.prefill.only()["body"])
    kinds = [
        [part["type"] for part in each["content"]] if isinstance(each["content"], list) else "text"
        for each in sent["messages"]
    ]
    assert kinds == [
        "text",
        ["image_embeds", "text"],
        "text",
        ["text", "image_embeds", "image_embeds"],
    ]


def test_equal_items_of_a_request_are_encoded_once(trio: Trio) -> None:
    assert trio.proxy.ask("POST", CHAT, chat(image("twin"), image("twin"))).status == 200
    assert len(trio.encoder.requests()) == 1
    assert [part["has_media"] for part in trio.prefill.only()["parts"]] == [False, False]


def test_equal_items_of_requests_in_flight_are_encoded_once(trio: Trio) -> None:
    trio.encoder.always(delay_ms=300)
    body = chat(image("wanted by many"))

    async def all_of_it() -> None:
        clients = [await Client.connect(trio.proxy.port) for _ in range(20)]
        answers = await asyncio.gather(*(client.ask("POST", CHAT, body) for client in clients))
        assert [status for status, _ in answers] == [200] * 20
        for client in clients:
            await client.close()

    asyncio.run(all_of_it())
    assert len(trio.encoder.requests()) == 1
    assert len(trio.decode.requests()) == 20
    assert trio.proxy.metric("coalesced") >= 19


def test_a_failed_encode_fails_over_for_every_waiter(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    encoder, engine = new_stub("encoder"), new_stub("prefill_decode")
    proxy = new_proxy(encoder, engine)
    encoder.always(do="status", code=500, delay_ms=200)
    answers: list[int] = []

    def one() -> None:
        answers.append(proxy.ask("POST", CHAT, chat(image("hopeless"))).status)

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 8
    assert all(r["parts"][0]["has_media"] for r in engine.requests(CHAT))


def test_items_of_a_request_are_spread_over_encoders(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    encoders = [new_stub("encoder"), new_stub("encoder")]
    engine = new_stub("prefill_decode")
    for encoder in encoders:
        encoder.always(delay_ms=100)
    proxy = new_proxy(*encoders, engine)
    parts = [image(f"{number}") for number in range(4)]
    assert proxy.ask("POST", CHAT, chat(*parts)).status == 200
    assert [len(encoder.requests()) for encoder in encoders] == [2, 2]
    sent = [part["uuid"] for part in engine.only()["parts"]]
    assert len(set(sent)) == 4


@pytest.mark.parametrize("state", ["absent", "writing"])
def test_an_item_that_is_absent_is_sent_with_its_media(trio: Trio, state: str) -> None:
    trio.encoder.next({"state": state})
    assert trio.proxy.ask("POST", CHAT, chat(image(state))).status == 200
    assert trio.prefill.only()["parts"][0]["has_media"] == (state == "absent")


def test_media_can_be_forwarded_with_its_name(new_stub: NewStub, new_proxy: NewProxy) -> None:
    encoder, engine = new_stub("encoder"), new_stub("prefill_decode")
    proxy = new_proxy(encoder, engine, forward_media="true")
    assert proxy.ask("POST", CHAT, chat(image("whole"))).status == 200
    uuid = encoder.only()["parts"][0]["uuid"]
    sent = engine.only()
    assert sent["parts"] == [{"type": "image_url", "uuid": uuid, "remote": "", "has_media": True}]
    assert list(sent["ec_transfer_params"]) == [uuid]
    assert data_url("whole") in sent["body"]


def test_processor_arguments_reach_the_encoder_and_the_identifier_the_consumer(trio: Trio) -> None:
    arguments = {"max_pixels": 1_000}
    body = chat(image("resized"), mm_processor_kwargs=arguments)
    assert trio.proxy.ask("POST", CHAT, body).status == 200
    encode, prefill = trio.encoder.only(), trio.prefill.only()
    assert json.loads(encode["body"])["mm_processor_kwargs"] == arguments
    uuid = encode["parts"][0]["uuid"]
    assert prefill["parts"][0]["uuid"] == uuid
    identifier = next(iter(prefill["ec_transfer_params"]))
    assert identifier != uuid


def test_a_remote_url_goes_on_by_the_identifier_that_the_engine_reports(trio: Trio) -> None:
    part = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/cat.png"}}
    assert trio.proxy.ask("POST", CHAT, chat(part)).status == 200
    sent = trio.prefill.only()
    identifier = next(iter(sent["ec_transfer_params"]))
    assert sent["parts"] == [
        {"type": "image_embeds", "uuid": identifier, "remote": "", "has_media": False}
    ]


def test_a_remote_url_with_processor_arguments_is_sent_unchanged(trio: Trio) -> None:
    url = "http://127.0.0.1:9/cat.png"
    part = {"type": "image_url", "image_url": {"url": url}}
    body = chat(part, mm_processor_kwargs={"max_pixels": 1_000})
    assert trio.proxy.ask("POST", CHAT, body).status == 200
    assert trio.prefill.only()["parts"] == [
        {"type": "image_url", "uuid": "", "remote": url, "has_media": True}
    ]


def test_a_large_image_is_passed_on_whole(trio: Trio) -> None:
    part = image("large", size=20 << 20)
    body = chat(part)
    answer = trio.proxy.ask("POST", CHAT, body)
    assert answer.status == 200
    assert trio.encoder.only()["body_bytes"] > len(part["image_url"]["url"])
    assert trio.prefill.only()["body_bytes"] < 10_000


@pytest.mark.memory
def test_a_large_body_is_not_held_twice(new_stub: NewStub, new_proxy: NewProxy) -> None:
    encoder, engine = new_stub("encoder"), new_stub("prefill_decode")
    proxy = new_proxy(encoder, engine)
    assert proxy.ask("POST", CHAT, chat(image("warm"))).status == 200
    before = proxy.resident_kib()
    encoder.next({"do": "stall"})
    size = 40 << 20
    with proxy.connect() as connection:
        connection.send(request("POST", CHAT, chat(image("huge", size=size))))
        until(lambda: encoder.counts()["in_flight"] == 1, "the encoder has it")
        grown = proxy.resident_kib() - before
    assert grown < 1.5 * size * 4 / 3 / 1024, f"{grown} KiB more"


# --- with a real arena ---

PREFIX = (
    "sluice1@tenant:default@kind:encoder_output@model:stub@revision:1@encoder:e@dtype:bfloat16"
    "@layout:replicated"
)


class Attached:
    """An encoder and a combined engine with the same arena, and a proxy that looks into it."""

    def __init__(
        self, new_stub: NewStub, new_proxy: NewProxy, daemon: ArenaDaemon, **encoder: object
    ) -> None:
        where = {"arena_directory": daemon.directory, "key_prefix": PREFIX}
        self.encoder: StubEngine = new_stub("encoder", **where, **encoder)
        self.engine: StubEngine = new_stub("prefill_decode", **where)
        self.proxy = new_proxy(self.encoder, self.engine, arena_directory=daemon.directory)
        sees_the_arena(self.proxy)


def sees_the_arena(proxy: Proxy) -> None:
    until(lambda: proxy.metric("arena_prefixes") >= 1, "the proxy has read the engines' records")


@pytest.fixture
def attached(daemon: ArenaDaemon, new_stub: NewStub, new_proxy: NewProxy) -> Attached:
    return Attached(new_stub, new_proxy, daemon)


def test_the_encoder_is_skipped_when_the_feature_is_there(attached: Attached) -> None:
    for _ in range(5):
        answer = attached.proxy.ask("POST", CHAT, chat(image("again")))
        assert answer.status == 200, answer.body
    assert len(attached.encoder.requests()) == 1
    sent = attached.engine.requests()
    assert len(sent) == 5
    first = sent[0]["parts"]
    for each in sent:
        assert each["parts"] == first
        assert each["ec_transfer_params"].keys() == sent[0]["ec_transfer_params"].keys()
    assert attached.proxy.metric("skipped") >= 4


def test_a_feature_that_others_put_is_found(
    attached: Attached, new_proxy: NewProxy, daemon: ArenaDaemon
) -> None:
    """A proxy that has just started knows no encode of it."""
    assert attached.proxy.ask("POST", CHAT, chat(image("old"))).status == 200
    fresh = new_proxy(attached.encoder, attached.engine, arena_directory=daemon.directory)
    sees_the_arena(fresh)
    assert fresh.ask("POST", CHAT, chat(image("old"))).status == 200
    assert len(attached.encoder.requests()) == 1
    assert not attached.engine.requests()[-1]["parts"][0]["has_media"]


def test_other_media_is_still_encoded(attached: Attached) -> None:
    for name in ("one", "two"):
        assert attached.proxy.ask("POST", CHAT, chat(image(name))).status == 200
    assert len(attached.encoder.requests()) == 2


def test_an_engine_with_processor_arguments_of_its_own_is_skipped_too(
    daemon: ArenaDaemon, new_stub: NewStub, new_proxy: NewProxy
) -> None:
    setup = Attached(new_stub, new_proxy, daemon, derive_identifiers=1)
    for _ in range(3):
        answer = setup.proxy.ask("POST", CHAT, chat(image("derived")))
        assert answer.status == 200, answer.body
    assert len(setup.encoder.requests()) == 1
    names = [next(iter(each["ec_transfer_params"])) for each in setup.engine.requests()]
    assert len(set(names)) == 1


def test_requests_with_processor_arguments_are_skipped_too(attached: Attached) -> None:
    for _ in range(3):
        body = chat(image("resized"), mm_processor_kwargs={"max_pixels": 10})
        assert attached.proxy.ask("POST", CHAT, body).status == 200
    assert len(attached.encoder.requests()) == 1
    body = chat(image("resized"), mm_processor_kwargs={"max_pixels": 20})
    assert attached.proxy.ask("POST", CHAT, body).status == 200
    assert len(attached.encoder.requests()) == 2


def test_a_dead_arena_costs_an_encode_and_nothing_else(
    attached: Attached, daemon: ArenaDaemon
) -> None:
    assert attached.proxy.ask("POST", CHAT, chat(image("before"))).status == 200
    daemon.kill()
    attached.encoder.always(state="absent")
    answer = attached.proxy.ask("POST", CHAT, chat(image("after")))
    assert answer.status == 200, answer.body
    daemon.start()
