"""What an operator can decide, and what is written down about every request."""

import json
import time
from pathlib import Path

import pytest
from chat import CHAT, COMPLETIONS, chat, completion, image
from raw_http import request
from setups import NewProxy, NewStub
from test_instances import BAD_CONFIG, start
from waiting import until


def test_without_an_encoder_a_request_can_be_refused(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    encoder, engine = new_stub("encoder"), new_stub("prefill_decode")
    proxy = new_proxy(encoder, engine, encoder_empty="refuse", health_interval="50ms")
    encoder.kill()

    def refused() -> bool:
        answer = proxy.ask("POST", CHAT, chat(image("nobody encodes it")))
        return answer.status == 503

    until(refused, "the encoder is missed")
    answer = proxy.ask("POST", CHAT, chat(image("nobody encodes it")))
    answer.error()
    assert int(answer.header("retry-after") or 0) >= 1
    assert proxy.ask("POST", CHAT, chat()).status == 200


EMBEDS = {"type": "image_embeds", "image_embeds": "gASVAAAA"}


@pytest.mark.parametrize("allowed", [True, False])
def test_embeds_with_data_need_a_setting(
    new_stub: NewStub, new_proxy: NewProxy, allowed: bool
) -> None:
    encoder, engine = new_stub("encoder"), new_stub("prefill_decode")
    proxy = new_proxy(encoder, engine, allow_image_embeds="true" if allowed else "false")
    answer = proxy.ask("POST", CHAT, chat(EMBEDS))
    assert answer.status == (200 if allowed else 400), answer.body
    assert len(engine.requests(CHAT)) == (1 if allowed else 0)
    assert allowed or encoder.requests() == []


def test_engines_on_other_machines_need_a_setting(build_dir: Path) -> None:
    done = start(build_dir, "--port", "0", "--instance", "decode=http://192.0.2.1:8000")
    assert done.returncode == BAD_CONFIG
    assert "remote" in done.stderr


@pytest.mark.parametrize("stage", ["encoder", "prefill", "decode"])
def test_a_deadline_ends_the_stage_that_runs(
    new_stub: NewStub, new_proxy: NewProxy, stage: str
) -> None:
    engines = {role: new_stub(role) for role in ("encoder", "prefill", "decode")}
    proxy = new_proxy(*engines.values(), on_failure="fail")
    engines[stage].always(do="stall")
    began = time.monotonic()
    answer = proxy.ask("POST", CHAT, chat(image("late")), {"x-sluice-timeout-ms": "300"})
    assert 0.2 < time.monotonic() - began < 3
    assert answer.status in {408, 503, 504}, answer
    answer.error()
    until(lambda: engines[stage].counts()["in_flight"] == 0, f"{stage} is told")


def test_a_deadline_in_a_stream_ends_it_with_an_error_event(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(engine)
    engine.always(do="stall", after_events=2)
    with proxy.connect() as connection:
        body = completion(stream=True, max_tokens=9)
        connection.send(request("POST", COMPLETIONS, body, {"x-sluice-timeout-ms": "400"}))
        said = b"".join(connection.pieces(connection.head()))
    assert b'" 1"' in said
    assert b'"error"' in said
    until(lambda: engine.counts()["in_flight"] == 0, "the engine is told")


@pytest.mark.parametrize("value", ["0", "-1", "soon", "1e9", "99999999999999999999"])
def test_a_deadline_that_is_none_is_refused(
    new_stub: NewStub, new_proxy: NewProxy, value: str
) -> None:
    proxy = new_proxy(new_stub("colocated"))
    answer = proxy.ask("POST", CHAT, chat(), {"x-sluice-timeout-ms": value})
    assert answer.status == 400
    answer.error()


def test_every_request_has_a_line_that_tells_no_secrets(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(engine)
    proxy.ask("POST", CHAT, chat(text="a private question"), {"x-request-id": "whole"})
    proxy.ask("POST", CHAT, chat(image("private"), stream=True), {"x-request-id": "streamed"})
    proxy.ask("POST", CHAT, b"{private", {"x-request-id": "refused"})
    engine.next({"do": "stall"})
    with proxy.connect() as connection:
        connection.send(request("POST", CHAT, chat(), {"x-request-id": "left"}))
        until(lambda: engine.counts()["in_flight"] == 1, "it runs")

    def lines() -> dict[str, dict[str, object]]:
        whole = proxy.log().split("\n")[:-1]  # the last one may still be written
        found = [json.loads(line) for line in whole if line.startswith("{")]
        return {str(each["id"]): each for each in found}

    until(lambda: "left" in lines(), "all four are written")
    seen = lines()
    assert {seen[name]["status"] for name in ("whole", "streamed")} == {200}
    assert seen["refused"]["status"] == 400
    assert seen["streamed"]["stream"] is True
    for name in ("whole", "streamed", "refused", "left"):
        assert seen[name]["target"] == CHAT
    assert "private" not in proxy.log()
    assert "base64" not in proxy.log()


def test_metrics_count_what_happened(new_stub: NewStub, new_proxy: NewProxy) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(engine)
    for _ in range(3):
        proxy.ask("POST", CHAT, chat())
    proxy.ask("POST", CHAT, b"{")
    assert proxy.metric(r'answers_total.*"2xx"') == 3
    assert proxy.metric(r'answers_total.*"4xx"') == 1
    assert proxy.metric(r"refusals_total.*invalid") == 1
    engine.next({"do": "stall"})
    with proxy.connect() as connection:
        connection.send(request("POST", CHAT, chat()))
        until(lambda: engine.counts()["in_flight"] == 1, "it runs")
    until(lambda: proxy.metric("clients_gone_total") == 1, "the client has left")
    assert proxy.metric(r"time_to_first_token_seconds_count|first_token.*_count") >= 3
    until(lambda: proxy.metric(r"instance.*running|running") == 0, "no place is held")


def test_metrics_are_what_prometheus_reads(new_stub: NewStub, new_proxy: NewProxy) -> None:
    proxy = new_proxy(new_stub("colocated"))
    proxy.ask("POST", CHAT, chat())
    text = proxy.ask("GET", "/metrics").body.decode()
    names = [line.split(" ")[2] for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(names) == len(set(names)), "a name is described twice"
    samples = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(samples) == len({line.rsplit(" ", 1)[0] for line in samples}), "a sample comes twice"
    for line in samples:
        float(line.rsplit(" ", 1)[1])
        name = line.split("{")[0].split(" ")[0]
        assert any(
            name in {known, *(known + end for end in ("_sum", "_count", "_bucket"))}
            for known in names
        ), line
