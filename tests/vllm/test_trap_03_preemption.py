"""Trap 3: loads follow the encoder cache, saves follow the scheduled requests."""

import pytest
import torch
from peer import Peer
from sluice.vllm.settings import ConfigurationError
from world import World, item, request

TIGHT = {
    # One step schedules a part of the low request and then takes its blocks for the high one.
    "scheduling_policy": "priority",
    "max_num_batched_tokens": 160,
    "long_prefill_token_threshold": 64,
}


def test_trap_03_load_survives_same_step_preemption(engine, arena) -> None:
    """The step that promises a load preempts its request: vLLM still counts the entry as cached."""
    consumer = engine(
        "ec_consumer", blocks=5, extra={"allow_priority_scheduling": True}, watermark=0.0, **TIGHT
    )
    peer = Peer(consumer, arena.directory)
    stored = peer.store("IMG", 48)
    # Verified once, a feature is ready in the pass that asks for it: the schedule is fixed.
    consumer.serve(request("before", [item("IMG", 4, 48)]))
    consumer.scheduler.reset_encoder_cache()
    consumer.worker.encoder_cache.clear()
    low = request("low", [item("IMG", 300, 48)], tokens=400, max_tokens=4, priority=10)
    high = request("high", [], tokens=400, max_tokens=4)
    consumer.add(low)
    consumer.step()
    consumer.add(high)
    preempted_with_load = False
    for _ in range(400):
        running_before = {one.request_id for one in consumer.scheduler.running}
        step = consumer.step()
        lost = "low" in running_before and "low" not in step.scheduled
        if "IMG" in step.meta.loads and lost:
            preempted_with_load = True
        if {"low", "high"} <= consumer.finished.keys():
            break
    assert preempted_with_load, "the schedule no longer preempts in the step of the load"
    assert str(consumer.finished["low"].finish_reason) == "length"
    assert consumer.worker.encoded == []
    assert torch.equal(consumer.worker.gathered["IMG"], stored)
    peer.close()


def test_trap_03_freed_entry_ends_its_load(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    peer.store("A", 20)
    consumer.add(request("r", [item("A", 4, 20)], max_tokens=3))
    while "A" not in (output := consumer.scheduler.schedule()).ec_connector_metadata.loads:
        consumer.finish(output)
    # Before any acknowledgement vLLM frees the entry.
    output.free_encoder_mm_hashes.append("A")
    meta = consumer.connector.build_connector_meta(output)
    assert meta.loads == {}
    peer.close()


def test_trap_03_only_scheduled_requests_are_saved(engine) -> None:
    producer = engine("ec_producer", max_num_batched_tokens=64)
    first = request("one", [item("A", 4, 20)], tokens=64)
    second = request("two", [item("B", 4, 20)], tokens=64)
    producer.add(first, second)
    step = producer.step()
    assert set(step.scheduled) == {"one"}
    assert set(step.meta.saves) == {"A"}
    step = producer.step()
    assert set(step.scheduled) == {"two"}
    assert set(step.meta.saves) == {"B"}


def test_trap_03_priority_scheduling_is_refused_for_local_encodes(model, arena) -> None:
    with pytest.raises(ConfigurationError, match="--scheduling-policy priority"):
        World(model, arena.directory, "ec_consumer", scheduling_policy="priority")
