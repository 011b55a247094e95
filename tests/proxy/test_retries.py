"""An engine that fails before the first content is replaced by another; after it, the client is
told in its stream. Never an empty 200, never half an answer as a whole one."""

from pathlib import Path
from typing import Any

import pytest
from chat import CHAT, COMPLETIONS, Stream, chat, completion, image, read_stream
from proxy_process import Proxy
from raw_http import Broken, request
from setups import TOKEN, NewProxy, NewStub
from stub_engine import StubEngine
from waiting import until

FAULTS: dict[str, dict[str, Any]] = {
    "closes": {"do": "close"},
    "resets": {"do": "reset"},
    "answers_500": {"do": "status", "code": 500},
    "answers_502": {"do": "status", "code": 502},
    "answers_503": {"do": "status", "code": 503},
    "sends_no_http": {"do": "garbage"},
    "sends_half_an_answer": {"do": "half"},
}
# In a stream, before anything with content: the head and the role chunk are held back.
EARLY: dict[str, dict[str, Any]] = {
    "closes_after_the_head": {"do": "close", "after_events": 0},
    "resets_after_the_head": {"do": "reset", "after_events": 0},
    "breaks_the_framing": {"do": "garbage", "after_events": 0},
    "sends_half_an_event": {"do": "half", "after_events": 0},
    "sends_an_error_event": {"do": "error_event", "after_events": 0},
}
BEFORE_CONTENT = FAULTS | EARLY
# Events come one by one, so that the first are with the client before the fault.
LATE = {name: {**fault, "after_events": 3, "interval_ms": 20} for name, fault in EARLY.items()}


class Fleet:
    """Two engines of each role, and a proxy before them."""

    def __init__(self, new_stub: NewStub, new_proxy: NewProxy, roles: list[str]) -> None:
        self.engines = {role: [new_stub(role), new_stub(role)] for role in roles}
        self.proxy: Proxy = new_proxy(*(e for pair in self.engines.values() for e in pair))

    def first_of(self, role: str, fault: dict[str, Any]) -> None:
        """The next request of this role fails, whichever engine gets it."""
        self.pair(role)[0].next(fault)
        self.pair(role)[1].next(fault)

    def pair(self, role: str) -> list[StubEngine]:
        return self.engines[role]

    def asked(self, role: str) -> int:
        return sum(len(engine.requests()) for engine in self.pair(role))

    def use_up(self, role: str) -> None:
        for engine in self.pair(role):
            engine.forget()


@pytest.fixture
def decoders(new_stub: NewStub, new_proxy: NewProxy) -> Fleet:
    return Fleet(new_stub, new_proxy, ["colocated"])


@pytest.fixture
def fleet(new_stub: NewStub, new_proxy: NewProxy) -> Fleet:
    return Fleet(new_stub, new_proxy, ["encoder", "prefill", "decode"])


def stream_of(proxy: Proxy, body: bytes, target: str = CHAT) -> tuple[int, Stream | None]:
    """Status and stream; no stream when the answer is an error object."""
    with proxy.connect() as connection:
        connection.send(request("POST", target, body))
        head = connection.head()
        if head.status != 200:
            assert b'"error"' in b"".join(connection.pieces(head))
            return head.status, None
        return 200, read_stream(connection.pieces(head))


def one_fails(fleet: Fleet, role: str, fault: dict[str, Any]) -> None:
    """Exactly one engine of the role fails its next request; the other does not."""
    engine = fleet.pair(role)[0]
    engine.next(fault)
    until_used = 0
    while not engine.requests():
        answer = fleet.proxy.ask("POST", CHAT, chat(image(f"{role}{until_used}")))
        assert answer.status == 200, answer.body
        until_used += 1
        assert until_used < 20, f"the first {role} is never asked"


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("role", ["encoder", "prefill", "decode"])
def test_a_stage_that_fails_is_done_by_another_engine(fleet: Fleet, role: str, name: str) -> None:
    one_fails(fleet, role, FAULTS[name])
    # On another engine, or because of a reference that may have been the reason.
    assert fleet.proxy.metric("retries|fallbacks.*reference") >= 1


@pytest.mark.parametrize("name", BEFORE_CONTENT)
def test_a_stream_that_fails_before_content_begins_anew(decoders: Fleet, name: str) -> None:
    fault = BEFORE_CONTENT[name]
    decoders.pair("colocated")[0].next(fault)
    for _ in range(20):
        status, stream = stream_of(decoders.proxy, chat(stream=True))
        assert status == 200
        assert stream is not None
        assert stream.is_whole
        assert stream.has_first(4)
        if decoders.pair("colocated")[0].requests():
            return
    pytest.fail("the first engine is never asked")


@pytest.mark.parametrize("name", LATE)
def test_a_stream_that_fails_after_content_ends_with_an_error_event(
    decoders: Fleet, name: str
) -> None:
    decoders.first_of("colocated", LATE[name])
    status, stream = stream_of(decoders.proxy, chat(stream=True, max_tokens=9))
    assert status == 200
    assert stream is not None
    # What arrives together with a broken frame or a reset may be lost with it; the rest is there.
    sudden = LATE[name]["do"] in {"garbage", "reset"}
    assert stream.has_first(len(stream.numbers) if sudden else 3), stream.numbers
    assert 1 <= len(stream.numbers) <= 3
    assert stream.error is not None
    assert stream.error["message"]
    assert not stream.is_whole
    assert decoders.asked("colocated") == 1, "content was computed twice"


def test_a_stream_that_ends_without_done_is_not_taken_for_a_whole_one(decoders: Fleet) -> None:
    decoders.first_of("colocated", {"do": "no_done", "after_events": 3})
    status, stream = stream_of(decoders.proxy, completion(stream=True, max_tokens=9), COMPLETIONS)
    assert status == 200
    assert stream is not None
    assert stream.has_first(3)
    assert stream.error is not None or not stream.done


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", ["closes", "answers_500", "answers_503", "sends_half_an_answer"])
def test_when_every_engine_fails_the_client_gets_an_error(
    decoders: Fleet, name: str, stream: bool
) -> None:
    for engine in decoders.pair("colocated"):
        engine.always(**FAULTS[name])
    answer = decoders.proxy.ask("POST", CHAT, chat(stream=stream))
    assert answer.status in {500, 502, 503}, answer
    answer.error()
    assert decoders.asked("colocated") <= 4, "retried without end"


@pytest.mark.parametrize("code", [400, 404, 422])
def test_what_an_engine_refuses_is_said_to_the_client_and_not_retried(
    decoders: Fleet, code: int
) -> None:
    decoders.first_of("colocated", {"do": "status", "code": code})
    answer = decoders.proxy.ask("POST", CHAT, chat())
    assert answer.status == code
    answer.error()
    assert decoders.asked("colocated") == 1


def test_an_engine_that_is_gone_is_left_out_and_taken_back(
    new_stub: NewStub, new_proxy: NewProxy, token_file: Path
) -> None:
    one, other = new_stub("colocated"), new_stub("colocated")
    proxy = new_proxy(one, other, health_interval="100ms", token_file=token_file)
    one.kill()
    for _ in range(20):
        assert proxy.ask("POST", CHAT, chat()).status == 200

    def instances() -> str:
        answer = proxy.ask("GET", "/v1/instances", headers={"authorization": f"Bearer {TOKEN}"})
        return answer.body.decode()

    until(lambda: '"healthy":false' in instances().replace(" ", ""), "it is evicted")
    one.start()
    until(lambda: '"healthy":false' not in instances().replace(" ", ""), "it is readmitted")

    def asked_again() -> bool:
        assert proxy.ask("POST", CHAT, chat()).status == 200
        return len(one.requests(CHAT)) > 0

    until(asked_again, "it gets requests again")


def test_without_an_encoder_prefill_encodes(new_stub: NewStub, new_proxy: NewProxy) -> None:
    encoder, prefill, decode = new_stub("encoder"), new_stub("prefill"), new_stub("decode")
    proxy = new_proxy(encoder, prefill, decode)
    encoder.kill()
    answer = proxy.ask("POST", CHAT, chat(image("no encoder")))
    assert answer.status == 200, answer.body
    assert prefill.only()["parts"][0]["has_media"]
    assert proxy.metric("fallback") >= 1


def test_on_failure_fail_turns_a_fallback_into_an_error(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    encoder, prefill, decode = new_stub("encoder"), new_stub("prefill"), new_stub("decode")
    proxy = new_proxy(encoder, prefill, decode, on_failure="fail")
    encoder.kill()
    answer = proxy.ask("POST", CHAT, chat(image("no encoder")))
    assert answer.status in {500, 502, 503}
    answer.error()
    assert decode.requests() == []
    prefill.forget()
    prefill.next({"reason": "no space"})
    answer = proxy.ask("POST", CHAT, chat())
    assert answer.status in {500, 502, 503}
    assert decode.requests() == []


def test_a_prefill_that_hands_nothing_off_lets_decode_compute(fleet: Fleet) -> None:
    fleet.first_of("prefill", {"reason": "no space"})
    answer = fleet.proxy.ask("POST", CHAT, chat())
    assert answer.status == 200
    sent = [r for engine in fleet.pair("decode") for r in engine.requests()]
    assert len(sent) == 1
    params = sent[0]["kv_transfer_params"]
    assert params is None or params["do_remote_prefill"] is False
    assert fleet.proxy.metric("fallback") >= 1


def test_a_reference_that_fails_is_sent_once_more_with_its_media(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    encoder, engine = new_stub("encoder"), new_stub("prefill_decode")
    proxy = new_proxy(encoder, engine)
    engine.next({"do": "status", "code": 500})
    answer = proxy.ask("POST", CHAT, chat(image("lost in the arena")))
    assert answer.status == 200, answer.body
    first, second = engine.requests()
    assert not first["parts"][0]["has_media"]
    assert second["parts"][0]["has_media"]


def test_half_an_answer_is_never_shown_as_a_whole_one(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    engine = new_stub("colocated")
    engine.always(do="half")
    proxy = new_proxy(engine)
    with proxy.connect() as connection:
        connection.send(request("POST", CHAT, chat()))
        try:
            answer = connection.answer()
        except (Broken, ConnectionError):
            return
        assert answer.status >= 500
        answer.error()
