"""Real engines: an answer that goes on from another engine's KV is the answer of one engine."""

import http.client
import json
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from counts import LOGS, count
from engine_group import wait_until
from engine_process import EngineProcess
from kv_pair import Json, KVPair, post, text_of
from pictures import picture
from stage import Stage

pytestmark = pytest.mark.engine

# Prompts in one chunk and in several; the last chunk never a single token (see below).
CHUNK = 512


@pytest.fixture
def pair(model: Path, stage: Stage) -> KVPair:
    flags = ["--max-num-batched-tokens", str(CHUNK), "--enable-chunked-prefill"]
    return stage.show(
        "kv-pair", lambda: KVPair(model, LOGS / "engines", flags=flags, load_timeout_s=3.0)
    )


@pytest.mark.parametrize("tokens", [3, 100, 700, 3000])
def test_kv_decode_answers_as_one_engine(pair: KVPair, tokens: int) -> None:
    body = pair.body(text_of(tokens))
    alone = post(pair.decode, body)["choices"][0]
    before = [engine.kv() for engine in pair.engines]
    params = pair.prompt_kv(body)
    assert params["do_remote_prefill"] is True, params
    seen = pair.answer(body, params)
    assert seen["message"] == alone["message"]
    assert seen["logprobs"] == alone["logprobs"]
    pair.await_idle()
    sent, received = (
        {name: now[name] - then[name] for name in now}
        for now, then in zip((engine.kv() for engine in pair.engines), before, strict=True)
    )
    assert sent["bytes_sent"] == received["bytes_received"] > 0
    assert (sent["commits"], received["loads"]) == (1, 1)
    assert received["receive_failures"] == received["fallbacks"] == 0


def test_kv_decode_loads_while_prefill_computes(pair: KVPair) -> None:
    body = pair.body(text_of(3000, salt=7))
    alone = post(pair.decode, body)["choices"][0]
    before = pair.decode.kv()
    name = secrets.token_hex(16)
    begun = {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "sluice_handoff": name,
        "in_progress": True,
    }
    with ThreadPoolExecutor(1) as pool:
        prefilled = pool.submit(pair.prompt_kv, body, name)
        wait_until(lambda: bool(pair.handoff_keys()), "the first layer group is there")
        assert not prefilled.done()
        seen = pair.answer(body, begun)
        params = prefilled.result()
    assert params["do_remote_prefill"] is True, params
    assert seen["message"] == alone["message"]
    assert seen["logprobs"] == alone["logprobs"]
    pair.remove(params)
    pair.await_idle()
    after = pair.decode.kv()
    assert after["loads_in_progress"] - before["loads_in_progress"] == 1
    assert after["loads"] - before["loads"] == 1
    assert after["fallbacks"] == before["fallbacks"]


def test_kv_prompt_with_a_picture(pair: KVPair) -> None:
    body = pair.body("What is this? ", [picture(0)])
    alone = post(pair.decode, body)["choices"][0]
    seen = pair.answer(body, pair.prompt_kv(body))
    assert seen["logprobs"] == alone["logprobs"]
    other = pair.body("What is this? ", [picture(1)])
    assert post(pair.decode, other)["choices"][0]["logprobs"] != alone["logprobs"]
    # The KV of one picture is never taken for another's, whoever says so.
    before = pair.decode.kv()["fallbacks"]
    lie = pair.answer(other, pair.prompt_kv(body))
    assert lie["logprobs"] == post(pair.decode, other)["choices"][0]["logprobs"]
    assert pair.decode.kv()["fallbacks"] == before + 1


def test_kv_several_answers_of_one_prompt(pair: KVPair) -> None:
    body = pair.body(text_of(600, salt=3), n=3, temperature=0.7)
    before = pair.decode.kv()
    params = {**pair.prompt_kv({**body, "n": 1}), "keep": True}
    choices = post(pair.decode, {**body, "kv_transfer_params": params})["choices"]
    alone = post(pair.decode, body)["choices"]
    likeliest = {top_tokens(one) for one in choices}
    assert likeliest == {top_tokens(one) for one in alone}
    assert len(likeliest) == 1
    after = pair.decode.kv()
    assert after["loads"] - before["loads"] == 3
    assert pair.handoff_keys()  # whoever said "keep" removes it
    pair.remove(params)
    pair.await_idle()


def top_tokens(choice: Any) -> tuple[str, ...]:
    """The likeliest first tokens, whichever was taken."""
    return tuple(one["token"] for one in choice["logprobs"]["content"][0]["top_logprobs"])


def test_kv_many_requests_at_once(pair: KVPair) -> None:
    bodies = [pair.body(text_of(150 + 97 * n, salt=n)) for n in range(16)]
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda body: pair.answer(body, pair.prompt_kv(body)), bodies))
    # Batches change roundings, so that only whole answers of most are compared.
    alone = [post(pair.decode, body)["choices"][0] for body in bodies]
    same = sum(one["message"] == other["message"] for one, other in zip(seen, alone, strict=True))
    assert same >= 12, same
    pair.await_idle()


def test_kv_handoff_that_is_gone_is_computed(pair: KVPair) -> None:
    body = pair.body(text_of(400, salt=5))
    alone = post(pair.decode, body)["choices"][0]
    params = pair.prompt_kv(body)
    before = pair.decode.kv()
    seen = pair.answer(body, {**params, "sluice_handoff": secrets.token_hex(16)})
    assert seen["logprobs"] == alone["logprobs"]
    after = pair.decode.kv()
    assert after["fallbacks"] - before["fallbacks"] == 1
    assert after["failed_deadline"] - before["failed_deadline"] == 1
    pair.remove(params)
    pair.await_idle()


@pytest.mark.parametrize("phase", ["prefill", "loading", "decode"])
def test_kv_vanished_clients_leave_nothing(pair: KVPair, phase: str) -> None:
    named = []
    for number in range(count(20, full=200)):
        body = pair.body(text_of(900, salt=number), max_tokens=200, stream=True)
        if phase == "prefill":
            params = {"do_remote_decode": True, "sluice_handoff": secrets.token_hex(16)}
            vanish(pair.prefill, {**body, "max_tokens": 1, "kv_transfer_params": params}, number)
        else:
            params = pair.prompt_kv(body)
            if phase == "loading":  # its commit never comes
                pair.remove(params, ".0.0.end")
            vanish(pair.decode, {**body, "kv_transfer_params": params}, number)
        named.append(params)
    pair.await_blocks()
    for params in named:  # as the proxy: some were committed, or never reached an engine
        pair.remove(params)
    pair.await_idle()
    body = pair.body(text_of(300))
    assert pair.answer(body, pair.prompt_kv(body))["logprobs"]


def vanish(engine: EngineProcess, body: Json, number: int) -> None:
    """Sends a request and closes the connection a little later, a little later each time."""
    host, _, port = engine.http.address.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    connection.request(
        "POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"}
    )
    time.sleep(0.005 * (number % 20))  # what is under test is any moment
    connection.close()


def test_kv_one_engine_dies_and_the_other_goes_on(pair: KVPair) -> None:
    body = pair.body(text_of(800, salt=9))
    alone = post(pair.decode, body)["choices"][0]
    first, params = pair.prompt_kv(body), pair.prompt_kv(body)
    pair.prefill.kill()
    # Committed: it does not matter that its writer is dead.
    assert pair.answer(body, first)["logprobs"] == alone["logprobs"]
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(
            lambda: pair.answer({**body, "max_tokens": 500}, {**params, "generation": 3})
        )
        wait_until(lambda: pair.decode.blocks_in_use() > 0, "decode holds blocks")
        pair.decode.kill()
        with pytest.raises((OSError, AssertionError, http.client.HTTPException)):
            waits.result()
    for engine in pair.engines:
        engine.start()
    for engine in pair.engines:
        engine.wait_ready()
    assert pair.answer(body, params)["logprobs"] == alone["logprobs"]  # still there for a retry
    assert pair.answer(body, pair.prompt_kv(body))["logprobs"] == alone["logprobs"]
    pair.await_idle()
