"""What prefill hands off is what decode goes on with: chunks, prefix caches, several ranks."""

import pytest
from kv_world import (
    BLOCK,
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


@pytest.mark.parametrize("runner", ["v1", "v2"])
@pytest.mark.parametrize("tokens", [1, 5, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 100])
def test_kv_decode_goes_on_where_prefill_stopped(kv, client, runner, tokens) -> None:
    prefill, decode = kv("kv_producer", runner=runner), kv("kv_consumer", runner=runner)
    params = hand_off(prefill, tokens)
    assert params["do_remote_prefill"] is True
    assert (params["generation"], params["tokens"], params["ranks"]) == (0, tokens, 1)
    assert objects(client) == 3 + 1  # five layers in groups of two, and the commit
    steps = decode.serve(request("d", tokens, params, max_tokens=6))
    assert decode.answers["d"] == expected_answer(prompt_of(tokens), 6)
    assert sum(step.scheduled.get("d", 0) for step in steps) == 6  # the last token again, then 5
    assert decode.counted("loads") == 1
    assert decode.counted("bytes_received") == prefill.counted("bytes_sent") > 0
    decode.await_count("released", 1)
    await_objects(client, 0)
    decode.step()
    assert decode.free_blocks() == decode.free_at_start


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_kv_chunked_prefill_hands_over_what_each_step_completed(kv, client, runner) -> None:
    prefill = kv("kv_producer", runner=runner, max_num_batched_tokens=40, max_model_len=512)
    decode = kv("kv_consumer", runner=runner)
    params = hand_off(prefill, 203)
    assert params["do_remote_prefill"] is True
    # Six steps of 40 tokens: 2, 5, 7, 10, 12 and 13 blocks are complete.
    assert prefill.counted("parts_sent") == 6 * 3
    assert objects(client) == 6 * 3 + 1
    decode.serve(request("d", 203, params, max_tokens=4))
    assert decode.answers["d"] == expected_answer(prompt_of(203), 4)
    assert decode.counted("parts_received") == 6 * 3


def test_kv_blocks_of_prefills_own_prefix_cache_are_handed_off_too(kv) -> None:
    prefill, decode = kv("kv_producer", enable_prefix_caching=True), kv("kv_consumer")
    hand_off(prefill, 100, "first", "a" * 32)
    steps = prefill.serve(request("p", [*prompt_of(100), 3, 4], prefill_params()))
    assert sum(step.scheduled.get("p", 0) for step in steps) < BLOCK  # the rest was cached
    decode.serve(request("d", [*prompt_of(100), 3, 4], prefill.params("p"), max_tokens=3))
    assert decode.answers["d"] == expected_answer([*prompt_of(100), 3, 4], 3)


def test_kv_decode_copies_only_what_its_prefix_cache_lacks(kv) -> None:
    prefill, decode = kv("kv_producer"), kv("kv_consumer", enable_prefix_caching=True)
    decode.serve(request("before", 100))
    params = hand_off(prefill, prompt_of(100) + prompt_of(50, salt=9))
    tokens = prompt_of(100) + prompt_of(50, salt=9)
    decode.serve(request("d", tokens, params, max_tokens=3))
    assert decode.answers["d"] == expected_answer(tokens, 3)
    blocks = -(-150 // BLOCK)
    cached = 100 // BLOCK
    assert decode.counted("blocks_skipped") == 3 * cached
    sent = prefill.counted("bytes_sent")
    assert decode.counted("bytes_received") == sent * (blocks - cached) // blocks


@pytest.mark.parametrize(("writers", "readers"), [(1, 2), (2, 1), (2, 2), (4, 1), (1, 4), (4, 2)])
def test_kv_ranks_of_either_side_split_and_join_heads(kv, client, writers, readers) -> None:
    prefill, decode = kv("kv_producer", ranks=writers), kv("kv_consumer", ranks=readers)
    params = hand_off(prefill, 75)
    assert params["ranks"] == writers
    assert objects(client) == writers * (3 + 1)
    decode.serve(request("d", 75, params, max_tokens=3))
    assert decode.answers["d"] == expected_answer(prompt_of(75), 3)
    assert decode.counted("receive_failures") == 0
    decode.await_count("released", 1)
    await_objects(client, 0)


def test_kv_several_requests_at_once(kv, client) -> None:
    prefill, decode = kv("kv_producer", max_num_batched_tokens=64, max_model_len=64), kv("kv_both")
    prompts = {f"{n:032x}": prompt_of(9 * n + 1, salt=n) for n in range(1, 7)}
    prefill.serve(
        *(request(name, prompt, prefill_params(name)) for name, prompt in prompts.items())
    )
    decode.serve(
        *(
            request(name, prompt, prefill.params(name), max_tokens=5)
            for name, prompt in prompts.items()
        )
    )
    for name, prompt in prompts.items():
        assert decode.answers[name] == expected_answer(prompt, 5)
    decode.await_count("released", len(prompts))
    assert client.stats()["objects"] == 0


def test_kv_layers_per_group_decides_how_many_parts_there_are(kv, client) -> None:
    prefill = kv("kv_producer", extra={"layers_per_group": 1})
    decode = kv("kv_consumer", extra={"layers_per_group": 5})  # need not be the same
    params = hand_off(prefill, 40)
    assert objects(client) == 5 + 1
    decode.serve(request("d", 40, params, max_tokens=2))
    assert decode.answers["d"] == expected_answer(prompt_of(40), 2)


def test_kv_groups_leave_while_later_layers_are_computed(kv, client) -> None:
    prefill = kv("kv_producer")
    seen = []

    def look(layer: int) -> None:
        if layer == 1:
            key = _core.KvKeys("default", HANDOFF).part(0, 0, 0)
            seen.append(client.wait([key], 10.0))

    prefill.worker.between_layers = look
    hand_off(prefill, 40)
    assert seen == [["present"]]


def test_kv_engine_that_does_both_answers_its_own_handoff(kv) -> None:
    engine = kv("kv_both")
    params = hand_off(engine, 60)
    engine.serve(request("d", 60, params, max_tokens=3))
    assert engine.answers["d"] == expected_answer(prompt_of(60), 3)
    assert engine.counted("loads") == 1
