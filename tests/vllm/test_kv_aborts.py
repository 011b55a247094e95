"""Requests that end in every phase of a hand-off: blocks and arena are as before, and each load is
answered once."""

import pytest
from kv_world import (
    HANDOFF,
    await_objects,
    expected_answer,
    hand_off,
    objects,
    prefill_params,
    prompt_of,
    request,
)
from sluice import _core

KEYS = _core.KvKeys("default", HANDOFF)


@pytest.mark.parametrize("runner", ["v1", "v2"])
@pytest.mark.parametrize("steps", [0, 1, 2, 4])
def test_kv_prefill_aborted_after_any_step_leaves_nothing(kv, client, runner, steps) -> None:
    prefill = kv("kv_producer", runner=runner, max_num_batched_tokens=40, max_model_len=512)
    prefill.add(request("p", 200, prefill_params()))
    for _ in range(steps):
        prefill.step()
    prefill.abort("p")
    prefill.step()  # finished requests keep the engine going for this one
    await_objects(client, 0)
    assert prefill.free_blocks() == prefill.free_at_start
    assert hand_off(prefill, 50, "next", "b" * 32)["do_remote_prefill"] is True


def test_kv_prefill_aborted_while_its_last_step_runs_leaves_nothing(kv, client) -> None:
    prefill = kv("kv_producer")
    prefill.add(request("p", 100, prefill_params()))
    output = prefill.scheduler.schedule()
    results = [worker.run(output) for worker in prefill.workers]
    assert objects(client) == 4  # committed, and nobody will ever hear of it
    prefill.abort("p")
    prefill.deliver(output, results)
    prefill.step()
    await_objects(client, 0)
    assert prefill.free_blocks() == prefill.free_at_start


def test_kv_decode_aborted_before_it_was_scheduled_releases(kv, client) -> None:
    decode = kv("kv_consumer")
    params = hand_off(kv("kv_producer"), 100)
    decode.add(request("d", 100, params))
    decode.abort("d")
    decode.step()
    await_objects(client, 0)
    assert decode.counted("matches") == 0


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_kv_decode_aborted_while_loading_gives_its_blocks_back_once(kv, client, runner) -> None:
    prefill, decode = kv("kv_producer"), kv("kv_consumer", runner=runner)
    params = hand_off(prefill, 100)
    client.remove(KEYS.part(0, 0, 1))  # so that it waits
    decode.add(request("d", 100, params))
    decode.run_until(lambda: decode.counted("receive_waits") > 3)
    decode.abort("d")
    assert decode.free_blocks() < decode.free_at_start  # the loader may still write to them
    decode.run_until(lambda: decode.free_blocks() == decode.free_at_start)
    assert decode.counted("load_cancelled") == 1
    assert decode.counted("receive_failures") == 0
    await_objects(client, 0)
    for _ in range(5):
        decode.step()  # a second answer would end the engine


def test_kv_decode_aborted_between_planning_and_loading(kv, client) -> None:
    decode = kv("kv_consumer")
    params = hand_off(kv("kv_producer"), 100)
    client.remove(KEYS.part(0, 0, 1))
    decode.add(request("d", 100, params))
    output = decode.scheduler.schedule()
    decode.abort("d")
    decode.finish(output)
    decode.run_until(lambda: decode.free_blocks() == decode.free_at_start)
    await_objects(client, 0)


def test_kv_decode_aborted_when_its_load_has_just_ended(kv, client) -> None:
    decode = kv("kv_consumer")
    params = hand_off(kv("kv_producer"), 100)
    decode.add(request("d", 100, params))
    decode.step()
    decode.await_count("loads", 1)
    output = decode.scheduler.schedule()
    results = [worker.run(output) for worker in decode.workers]  # says: received
    decode.abort("d")
    decode.deliver(output, results)
    for _ in range(3):
        decode.step()
    assert decode.free_blocks() == decode.free_at_start
    await_objects(client, 0)


def test_kv_decode_aborted_after_loading_leaves_nothing(kv, client) -> None:
    decode = kv("kv_consumer")
    params = hand_off(kv("kv_producer"), 100)
    decode.add(request("d", 100, params, max_tokens=50))
    decode.run_until(lambda: len(decode.answers.get("d", [])) > 2)
    decode.abort("d")
    decode.step()
    await_objects(client, 0)
    assert decode.free_blocks() == decode.free_at_start


def test_kv_finished_twice_and_for_requests_never_scheduled(kv, client) -> None:
    decode = kv("kv_consumer")
    params = hand_off(kv("kv_producer"), 100)
    stub = request("stub", 100, params)
    for _ in range(2):
        assert decode.connector.request_finished(stub, []) == (False, None)
    first = request("d", 100, params)
    decode.connector.on_new_request(first)
    for _ in range(2):
        assert decode.connector.request_finished(first, []) == (False, None)
    await_objects(client, 0)


def test_kv_kept_handoff_serves_several_requests(kv, client) -> None:
    decode = kv("kv_consumer")
    params = {**hand_off(kv("kv_producer"), 100), "keep": True}
    decode.serve(*(request(f"d{n}", 100, params, max_tokens=3) for n in range(3)))
    for n in range(3):
        assert decode.answers[f"d{n}"] == expected_answer(prompt_of(100), 3)
    assert decode.counted("loads") == 3
    for _ in range(3):
        decode.step()
    assert objects(client) == 4  # the proxy removes it
    assert decode.counted("released") == 0


def test_kv_request_that_wants_log_probabilities_of_its_prompt_computes_it(kv, client) -> None:
    decode = kv("kv_consumer")
    params = hand_off(kv("kv_producer"), 100)
    steps = decode.serve(request("d", 100, params, max_tokens=2, prompt_logprobs=1))
    assert sum(step.scheduled.get("d", 0) for step in steps) == 101
    assert decode.answers["d"] == expected_answer(prompt_of(100), 2)
    assert decode.counted("matches") == 0
    assert decode.counted("fallbacks") == 1
    await_objects(client, 0)


def test_kv_matching_has_no_side_effects(kv) -> None:
    decode = kv("kv_consumer")
    params = hand_off(kv("kv_producer"), 100)
    asked = request("d", 100, params, max_tokens=2)
    decode.connector.on_new_request(asked)
    for computed in (0, 32, 96, 0):
        found = decode.connector.get_num_new_matched_tokens(asked, computed)
        assert found == (100 - computed, True)
    plain = request("plain", 100)
    decode.connector.on_new_request(plain)
    assert decode.connector.get_num_new_matched_tokens(plain, 0) == (0, False)


def test_kv_two_steps_in_flight(kv, client) -> None:
    """V2 plans the next step before the one before has answered."""
    prefill = kv("kv_producer", runner="v2", max_num_batched_tokens=64, max_model_len=512)
    prefill.add(request("p", 150, prefill_params()), request("q", 90, prefill_params("b" * 32)))
    flying = []
    while len(prefill.finished) < 2:
        output = prefill.scheduler.schedule()
        flying.append((output, [worker.run(output) for worker in prefill.workers]))
        if len(flying) == 2:
            prefill.deliver(*flying.pop(0))
    for output, results in flying:
        prefill.deliver(output, results)
    decode = kv("kv_consumer", runner="v2")
    for name, handoff, tokens in (("p", HANDOFF, 150), ("q", "b" * 32, 90)):
        decode.serve(request(name, tokens, prefill.params(name), max_tokens=3))
        assert decode.answers[name] == expected_answer(prompt_of(tokens), 3), handoff
    assert decode.counted("loads") == 2
