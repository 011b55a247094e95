"""Decode takes a hand-off that prefill still writes: parts are copied as they come, nothing counts
before the commit, and what becomes of prefill becomes of the load.
"""

import time
from typing import Any

import pytest
from kv_world import (
    HANDOFF,
    KVWorld,
    await_objects,
    expected_answer,
    objects,
    prefill_params,
    prompt_of,
    request,
)
from sluice import _core

KEYS = _core.KvKeys("default", HANDOFF)
IN_PROGRESS = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "sluice_handoff": HANDOFF,
    "in_progress": True,
}
CHUNKED: dict[str, Any] = {"max_num_batched_tokens": 48, "max_model_len": 512}
PARTS_OF_A_STEP = 3  # layer groups


def begin(prefill: KVWorld, decode: KVWorld, tokens: list[int] | int = 200) -> None:
    """Prefill has computed its first chunk and decode has copied what there is of it."""
    prefill.add(request("p", tokens, prefill_params()))
    prefill.step()
    decode.add(request("d", 200, IN_PROGRESS, max_tokens=3))
    ranks = len(decode.workers)
    decode.run_until(lambda: decode.counted("parts_received") >= PARTS_OF_A_STEP * ranks)


@pytest.mark.parametrize("runner", ["v1", "v2"])
@pytest.mark.parametrize(("writers", "readers"), [(1, 1), (2, 1), (1, 2)])
def test_kv_parts_are_taken_as_they_come_and_count_with_the_commit(
    kv, client, runner, writers, readers
) -> None:
    prefill = kv("kv_producer", ranks=writers, runner=runner, **CHUNKED)
    decode = kv("kv_consumer", ranks=readers, runner=runner)
    begin(prefill, decode)
    while "p" not in prefill.finished:
        assert not decode.step().scheduled  # what is not whole is not computed with
        assert decode.counted("loads") == 0
        prefill.step()
    decode.run_until(lambda: "d" in decode.finished)
    assert decode.answers["d"] == expected_answer(prompt_of(200), 3)
    assert decode.counted("loads") == readers
    assert decode.counted("loads_in_progress") == readers
    assert decode.counted("matches") == 1
    assert decode.counted("fallbacks") == 0
    assert objects(client) > 0  # whoever named it removes it
    assert decode.free_blocks() == decode.free_at_start


@pytest.mark.parametrize("writers", [1, 2])
def test_kv_load_in_progress_follows_a_preempted_prefill(kv, client, writers) -> None:
    prefill = kv("kv_producer", ranks=writers, **CHUNKED)
    decode = kv("kv_consumer")
    begin(prefill, decode)
    victim = prefill.scheduler.requests["p"]
    prefill.scheduler.running.remove(victim)
    prefill.scheduler._preempt_request(victim, time.time())
    prefill.serve(request("other", prompt_of(40, salt=5)))  # takes its blocks meanwhile
    prefill.run_until(lambda: "p" in prefill.finished)
    assert prefill.params("p")["generation"] == 1
    decode.run_until(lambda: "d" in decode.finished)
    assert decode.answers["d"] == expected_answer(prompt_of(200), 3)
    assert decode.counted("loads_begun_again") == 1
    assert decode.counted("fallbacks") == 0


def test_kv_an_engine_that_only_waits_rests_between_steps(kv) -> None:
    """vLLM steps as fast as it can meanwhile, on a processor that prefill may need."""
    prefill, decode = kv("kv_producer", **CHUNKED), kv("kv_consumer")
    begin(prefill, decode)
    began = time.monotonic()
    for _ in range(10):
        assert not decode.step().scheduled
    assert time.monotonic() - began >= 10 * 0.005
    prefill.run_until(lambda: "p" in prefill.finished)
    decode.run_until(lambda: "d" in decode.finished)
    assert decode.answers["d"] == expected_answer(prompt_of(200), 3)


def test_kv_an_engine_that_computes_does_not_rest(kv) -> None:
    prefill, decode = kv("kv_producer", **CHUNKED), kv("kv_consumer")
    begin(prefill, decode)
    decode.add(request("other", 40, max_tokens=3))
    steps = decode.run_until(lambda: "other" in decode.finished)
    assert [step.meta.idle for step in steps if step.scheduled] == [False] * 3
    assert all(step.meta.idle for step in steps if not step.scheduled)


def test_kv_prefill_answers_with_a_commit_that_decode_has_used_already(kv) -> None:
    prefill, decode = kv("kv_producer"), kv("kv_consumer")
    prefill.add(request("p", 200, prefill_params()))
    output = prefill.scheduler.schedule()
    results = [worker.run(output) for worker in prefill.workers]  # committed, not yet answered
    decode.serve(request("d", 200, IN_PROGRESS, max_tokens=3))
    assert decode.counted("loads") == 1
    prefill.deliver(output, results)
    assert prefill.params("p")["do_remote_prefill"] is True


def test_kv_load_in_progress_of_a_prefill_that_goes_away_is_computed_here(kv, client) -> None:
    prefill = kv("kv_producer", **CHUNKED)
    decode = kv("kv_consumer", extra={"load_timeout_s": 0.3})
    begin(prefill, decode)
    prefill.abort("p")
    prefill.step()
    decode.run_until(lambda: "d" in decode.finished)
    assert decode.answers["d"] == expected_answer(prompt_of(200), 3)
    assert decode.counted("failed_deadline") == 1
    assert decode.counted("fallbacks") == 1
    await_objects(client, 0)


def test_kv_load_in_progress_has_time_as_long_as_parts_come(kv) -> None:
    prefill = kv("kv_producer", **CHUNKED)
    decode = kv("kv_consumer", extra={"load_timeout_s": 2.0})
    begin(prefill, decode)
    began = time.monotonic()
    while "p" not in prefill.finished:
        before = decode.counted("parts_received")
        until = time.monotonic() + 0.7  # prefill's steps are slower than a whole load may be
        decode.run_until(lambda until=until: time.monotonic() > until)
        prefill.step()
        if "p" not in prefill.finished:
            decode.run_until(lambda before=before: decode.counted("parts_received") > before)
    assert time.monotonic() - began > 2.0
    decode.run_until(lambda: "d" in decode.finished)
    assert decode.answers["d"] == expected_answer(prompt_of(200), 3)
    assert decode.counted("loads") == 1


def test_kv_load_in_progress_of_another_prompt_is_refused_at_its_commit(kv) -> None:
    prefill = kv("kv_producer", **CHUNKED)
    decode = kv("kv_consumer")
    begin(prefill, decode, prompt_of(200, salt=1))
    prefill.run_until(lambda: "p" in prefill.finished)
    decode.run_until(lambda: "d" in decode.finished)
    assert decode.answers["d"] == expected_answer(prompt_of(200), 3)
    assert decode.counted("failed_mismatch") == 1
    assert decode.counted("fallbacks") == 1


def test_kv_hand_off_that_never_begins_is_computed_here(kv) -> None:
    decode = kv("kv_consumer", extra={"load_timeout_s": 0.2})
    decode.serve(request("d", 200, IN_PROGRESS, max_tokens=3))
    assert decode.answers["d"] == expected_answer(prompt_of(200), 3)
    assert decode.counted("failed_deadline") == 1


@pytest.mark.parametrize("writer", [None, [0, 0], [0, 1 << 40], [0, 1, 2], [0.0, 1.0]])
def test_kv_first_part_with_a_strange_writer_is_refused(kv, client, writer) -> None:
    decode = kv("kv_consumer")
    attributes = {} if writer is None else {"writer": writer}
    client.put(KEYS.part(0, 0, 0), [("kv", "uint8", (1,), b"x")], attributes)
    decode.serve(request("d", 200, IN_PROGRESS, max_tokens=3))
    assert decode.answers["d"] == expected_answer(prompt_of(200), 3)
    assert decode.counted("failed_mismatch") == 1


def test_kv_decode_aborted_while_prefill_writes_leaves_nothing(kv, client) -> None:
    prefill = kv("kv_producer", **CHUNKED)
    decode = kv("kv_consumer")
    begin(prefill, decode)
    decode.abort("d")
    decode.run_until(lambda: decode.free_blocks() == decode.free_at_start)
    prefill.abort("p")  # as the proxy does when its client has left
    prefill.step()
    await_objects(client, 0)
    assert decode.counted("load_cancelled") == 1
    assert prefill.free_blocks() == prefill.free_at_start
