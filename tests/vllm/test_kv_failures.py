"""A hand-off that does not come, comes late, or is not what it should be: the prompt is computed
again, nothing stays behind, and nobody else waits."""

import time

import pytest
from arena_process import flip_byte
from kv_world import (
    BLOCK,
    HANDOFF,
    await_objects,
    entries,
    expected_answer,
    hand_off,
    objects,
    prefill_params,
    prompt_of,
    request,
)
from sluice import _core
from sluice.vllm.kv.writer import HandoffWriter

KEYS = _core.KvKeys("default", HANDOFF)
SHORT = {"load_timeout_s": 0.2}


def recomputes(decode, params, tokens=100, cause: str = "deadline") -> None:
    """The request is answered rightly without the hand-off, counted once by its cause."""
    steps = decode.serve(request("d", tokens, params, max_tokens=4))
    prompt = prompt_of(tokens) if isinstance(tokens, int) else tokens
    assert decode.answers["d"] == expected_answer(prompt, 4)
    assert sum(step.scheduled.get("d", 0) for step in steps) == len(prompt) + 3
    assert decode.counted("receive_failures") == 1
    assert decode.counted(f"failed_{cause}") == 1
    assert decode.counted("fallbacks") == 1
    assert decode.counted("loads") == 0
    decode.step()
    assert decode.free_blocks() == decode.free_at_start


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_kv_lost_part_is_awaited_and_then_computed(kv, client, runner) -> None:
    prefill, decode = kv("kv_producer"), kv("kv_consumer", extra=SHORT, runner=runner)
    params = hand_off(prefill, 100)
    client.remove(KEYS.part(0, 0, 1))
    recomputes(decode, params)
    decode.await_count("released", 1)
    await_objects(client, 0)


def test_kv_late_part_is_used(kv, client) -> None:
    prefill, decode = kv("kv_producer"), kv("kv_consumer")
    params = hand_off(prefill, 100)
    part = KEYS.part(0, 0, 2)
    lease = client.get(part)
    (tensor,) = lease.tensors
    content, attributes = lease.read(tensor.data_offset, tensor.nbytes), lease.attributes
    lease.release()
    client.remove(part)
    decode.add(request("d", 100, params, max_tokens=4))
    decode.run_until(lambda: decode.counted("receive_waits") > 3)
    assert "d" not in decode.finished
    client.put(part, [("kv", "uint8", tensor.shape, content)], attributes)
    decode.run_until(lambda: "d" in decode.finished)
    assert decode.answers["d"] == expected_answer(prompt_of(100), 4)
    assert decode.counted("loads") == 1
    assert decode.counted("receive_failures") == 0


def test_kv_handoff_that_never_was_is_computed(kv) -> None:
    params = hand_off(kv("kv_producer"), 100)
    recomputes(kv("kv_consumer", extra=SHORT), {**params, "sluice_handoff": "e" * 32})


def test_kv_damaged_part_is_never_used(kv, arena) -> None:
    prefill, decode = kv("kv_producer"), kv("kv_consumer")
    params = hand_off(prefill, 100)
    # Layer 2 opens the second group: what its second block holds, head after head.
    flip_byte(arena.directory, entries(prompt_of(100), 2, 0, 2)[:, BLOCK : 2 * BLOCK])
    recomputes(decode, params, cause="corrupt")


def test_kv_another_models_handoff_is_refused_with_both_values(kv, caplog) -> None:
    prefill, decode = kv("kv_producer", extra={"revision": "one"}), kv("kv_consumer")
    recomputes(decode, hand_off(prefill, 100), cause="mismatch")


def test_kv_another_prompt_is_never_answered_with_this_ones_kv(kv, client) -> None:
    prefill, decode = kv("kv_producer"), kv("kv_consumer")
    params = {**hand_off(prefill, 100), "keep": True}
    other = prompt_of(100, salt=1)
    decode.serve(request("d", other, params, max_tokens=4))
    assert decode.answers["d"] == expected_answer(other, 4)
    assert decode.counted("matches") == 0
    assert decode.counted("fallbacks") == 1
    # Not even with a digest that lies: the descriptor knows.
    from sluice.vllm.kv.prompt_digest import prompt_digest

    lie = {**params, "digest": prompt_digest(request("x", other))}
    decode.serve(request("e", other, lie, max_tokens=4))
    assert decode.answers["e"] == expected_answer(other, 4)
    assert decode.counted("failed_mismatch") == 1
    assert objects(client) == 4
    # Where nobody else reads it, it is of no use.
    decode.serve(request("f", other, {**params, "keep": False}, max_tokens=4))
    decode.await_count("released", 1)
    await_objects(client, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"sluice_handoff": "short"},
        {"sluice_handoff": None},
        {"sluice_handoff": "A" * 32},
        {"generation": -1},
        {"generation": "0"},
        {"tokens": 99},
        {"tokens": None},
        {"digest": "0" * 32},
        {"digest": 7},
        {"ranks": 0},
        {"ranks": True},
        {"ranks": 1 << 31},
        {"do_remote_decode": True},
    ],
)
def test_kv_malformed_parameters_fall_back(kv, change) -> None:
    prefill, decode = kv("kv_producer"), kv("kv_consumer")
    params = {**hand_off(prefill, 100), **change}
    decode.serve(request("d", 100, params, max_tokens=4))
    assert decode.answers["d"] == expected_answer(prompt_of(100), 4)
    assert decode.counted("fallbacks") == 1
    assert decode.counted("matches") == 0


def test_kv_ranks_beyond_the_models_heads_are_refused(kv) -> None:
    params = hand_off(kv("kv_producer"), 100)
    recomputes(kv("kv_consumer", extra=SHORT), {**params, "ranks": 3}, cause="mismatch")


def test_kv_malformed_name_for_prefill_is_answered_with_the_reason(kv) -> None:
    prefill = kv("kv_producer")
    prefill.serve(request("p", 30, prefill_params("no name")))
    params = prefill.params("p")
    assert params["do_remote_prefill"] is False
    assert "sluice_handoff" in params["reason"]


def fill(client: _core.Client) -> None:
    """Leaves no room for a part."""
    for size in (4 << 20, 1 << 14):
        for n in range(1 << 14):
            key = _core.ObjectKey.from_text(f"fill-{size}-{n}")
            tensor = ("t", "uint8", (size,), bytes(size))
            try:
                client.put(key, [tensor], timeout=0.1, hard_pin=True)
            except _core.OutOfSpace:
                break


def test_kv_full_arena_prefill_answers_without_a_handoff(kv, client) -> None:
    prefill = kv("kv_producer", extra={"reserve_timeout_s": 0.05})
    fill(client)
    prefill.serve(request("p", 600, prefill_params()))
    params = prefill.params("p")
    assert params["do_remote_prefill"] is False
    assert "arena is full" in params["reason"]
    assert prefill.answers["p"] == expected_answer(prompt_of(600), 1)
    assert prefill.counted("send_failures") == 1
    assert prefill.counted("uncommitted") == 1
    await_objects(client, 0)
    client.invalidate(_core.ObjectKey.from_text("fill").text)
    # The next one is handed off again.
    assert hand_off(prefill, 600, "again", "b" * 32)["do_remote_prefill"] is True


def test_kv_without_a_daemon_both_sides_compute(kv, arena, client) -> None:
    prefill, decode = kv("kv_producer"), kv("kv_consumer", extra=SHORT)
    params = hand_off(prefill, 100)
    arena.kill()
    deadline = time.monotonic() + 20
    sides = [prefill.worker.connector._worker, decode.worker.connector._worker]
    while any(side._attachment.client.attached for side in sides):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # What is in the arena stays readable without a daemon.
    decode.serve(request("d", 100, params, max_tokens=4))
    assert decode.answers["d"] == expected_answer(prompt_of(100), 4)
    assert decode.counted("loads") == 1
    lost = hand_off(prefill, 100, "q", "c" * 32)
    assert lost["do_remote_prefill"] is False
    assert lost["reason"] == "no daemon serves the arena"


def test_kv_engines_that_start_before_the_daemon_hand_off_once_it_is_there(model) -> None:
    from arena_process import ArenaProcess
    from kv_world import KVWorld

    with ArenaProcess(start=False) as arena:
        options = {"extra": {"attach_timeout_s": 0.1}}
        with (
            KVWorld(model, arena.directory, "kv_producer", **options) as prefill,
            KVWorld(model, arena.directory, "kv_consumer", **options) as decode,
        ):
            assert hand_off(prefill, 30, "early", "d" * 32)["do_remote_prefill"] is False
            arena.start()
            prefill.await_count("attaches", 2)
            decode.await_count("attaches", 2)
            decode.serve(request("d", 30, hand_off(prefill, 30), max_tokens=2))
            assert decode.counted("loads") == 1


@pytest.mark.parametrize("paused", ["prefill", "decode"])
def test_kv_stopped_daemon_stalls_nobody_else(kv, arena, paused) -> None:
    prefill = kv("kv_producer", extra={"reserve_timeout_s": 0.1, "save_timeout_s": 0.3})
    decode = kv("kv_consumer", extra={"load_timeout_s": 0.3})
    params = hand_off(prefill, 100)
    engine = prefill if paused == "prefill" else decode
    arena.pause()
    wanted = prefill_params("f" * 32) if paused == "prefill" else {**params, "generation": 7}
    engine.add(request("waits", 100, wanted), request("other", 50, max_tokens=8))
    began = time.monotonic()
    engine.run_until(lambda: "other" in engine.finished)
    assert time.monotonic() - began < 1.5
    engine.run_until(lambda: "waits" in engine.finished)
    arena.resume()
    assert engine.answers["waits"] == expected_answer(prompt_of(100), 1)


def test_kv_preempted_prefill_begins_a_new_generation(kv, client) -> None:
    prefill = kv("kv_producer", max_num_batched_tokens=48, max_model_len=512)
    decode = kv("kv_consumer")
    prefill.add(request("p", 200, prefill_params()))
    prefill.step()
    await_objects(client, 3)
    victim = prefill.scheduler.requests["p"]
    prefill.scheduler.running.remove(victim)
    prefill.scheduler._preempt_request(victim, time.time())
    # Other work takes its blocks meanwhile.
    prefill.serve(request("other", prompt_of(40, salt=5)))
    prefill.run_until(lambda: "p" in prefill.finished)
    params = prefill.params("p")
    assert params["do_remote_prefill"] is True
    assert params["generation"] == 1
    assert prefill.counted("restarts") == 1
    assert client.list(KEYS.prefix_of(0, 0)) == []
    decode.serve(request("d", 200, params, max_tokens=3))
    assert decode.answers["d"] == expected_answer(prompt_of(200), 3)


def test_kv_preempted_decode_computes_and_never_loads_again(kv) -> None:
    prefill, decode = kv("kv_producer"), kv("kv_consumer")
    params = hand_off(prefill, 100)
    decode.add(request("d", 100, params, max_tokens=6))
    decode.run_until(lambda: len(decode.answers.get("d", [])) >= 2)
    victim = decode.scheduler.requests["d"]
    decode.scheduler.running.remove(victim)
    decode.scheduler._preempt_request(victim, time.time())
    decode.run_until(lambda: "d" in decode.finished)
    assert decode.answers["d"] == expected_answer(prompt_of(100), 6)
    assert decode.counted("matches") == 1


def test_kv_steps_that_cannot_wait_longer_give_the_handoff_up(kv, client, monkeypatch) -> None:
    prefill = kv("kv_producer", extra={"save_timeout_s": 0.05})
    reserve = HandoffWriter._reserve

    def slow(self, job, group, sequence):
        time.sleep(0.2)  # a machine that is too busy
        return reserve(self, job, group, sequence)

    monkeypatch.setattr(HandoffWriter, "_reserve", slow)
    params = hand_off(prefill, 100)
    assert params["do_remote_prefill"] is False
    assert prefill.counted("save_deadlines") == 1
    prefill.await_count("send_failures", 1)
    monkeypatch.undo()
    prefill.step()
    assert hand_off(prefill, 100, "again", "b" * 32)["do_remote_prefill"] is True
    await_objects(client, 0)


def test_kv_load_that_waits_delays_no_other_request(kv, client) -> None:
    """Its writer may be stopped: the other streams of the engine go on at their pace."""
    decode = kv("kv_consumer", extra={"load_timeout_s": 300})
    params = hand_off(kv("kv_producer"), 100)
    client.remove(KEYS.commit(0, 0))
    decode.add(request("waits", 100, params), request("runs", 40, max_tokens=50))
    decode.run_until(lambda: decode.counted("receive_waits") > 3)
    gaps = []
    last = time.monotonic()
    while "runs" not in decode.finished:
        decode.step()
        gaps.append(time.monotonic() - last)
        last = time.monotonic()
    assert "waits" not in decode.finished
    assert max(gaps) < 10.0  # a step that waited would take minutes
    assert decode.counted("receive_failures") == 0
