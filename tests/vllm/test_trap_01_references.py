"""Trap 1: a metadata-only item has nothing to encode: never into the model without its feature."""

import time

import torch
from arena_process import ArenaProcess
from peer import Peer
from sluice.vllm import tensors
from world import feature_of, item, reference_item, request


def reference(identifier, rows=20, offset=4):
    return item(identifier, offset, rows, reference_item())


def test_trap_01_unknown_reference_fails_its_request_at_once(engine) -> None:
    consumer = engine("ec_consumer")
    steps = consumer.serve(request("r", [reference("nobody-made-this")]))
    assert str(consumer.finished["r"].finish_reason) == "error"
    assert len(steps) == 1
    assert not steps[0].scheduled
    assert consumer.counted("failed_absent") == 1
    assert consumer.worker.encoded == []


def test_trap_01_failed_reference_leaves_the_others_alone(engine, arena: ArenaProcess) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    stored = peer.store("known", 20)
    consumer.serve(
        request("bad", [reference("unknown")]),
        request("good", [reference("known")]),
        request("text", []),
    )
    assert str(consumer.finished["bad"].finish_reason) == "error"
    assert str(consumer.finished["good"].finish_reason) == "length"
    assert str(consumer.finished["text"].finish_reason) == "length"
    assert torch.equal(consumer.worker.gathered["known"], stored)
    peer.close()


def test_trap_01_announced_reference_waits_until_it_is_published(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    with peer.announced("slow", 20) as writer:
        consumer.add(request("r", [reference("slow")]))
        for _ in range(20):
            assert not consumer.step().scheduled
        assert "r" not in consumer.finished
        writer.write(None, tensors.host_bytes(feature_of("slow", 20)))
        writer.publish()
    consumer.run_until(lambda: "r" in consumer.finished)
    assert str(consumer.finished["r"].finish_reason) == "length"
    assert torch.equal(consumer.worker.gathered["slow"], feature_of("slow", 20))
    peer.close()


def test_trap_01_announced_reference_fails_at_its_deadline(engine, arena) -> None:
    consumer = engine("ec_consumer", extra={"wait_without_media_s": 0.2})
    peer = Peer(consumer, arena.directory)
    with peer.announced("never", 20):
        began = time.monotonic()
        consumer.add(request("r", [reference("never")]))
        consumer.run_until(lambda: "r" in consumer.finished)
        assert 0.2 <= time.monotonic() - began < 5
    assert str(consumer.finished["r"].finish_reason) == "error"
    assert consumer.counted("failed_deadline") == 1
    peer.close()


def test_trap_01_writing_in_the_encoders_answer_announces_too(engine) -> None:
    consumer = engine("ec_consumer", extra={"wait_without_media_s": 0.2})
    transfer = {"later": {"state": "writing"}}
    consumer.add(request("r", [reference("later")], transfer=transfer))
    assert not consumer.step().scheduled
    assert "r" not in consumer.finished  # absent now, but announced
    consumer.run_until(lambda: "r" in consumer.finished)
    assert consumer.counted("failed_deadline") == 1


def test_trap_01_reference_keeps_its_lease_until_the_request_ends(engine, arena) -> None:
    """After a preemption the feature is all that the engine has."""
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    peer.store("kept", 20)
    consumer.add(request("r", [reference("kept")], max_tokens=5))
    consumer.run_until(lambda: consumer.scheduler.requests["r"].num_output_tokens >= 2)
    scheduler_client = consumer.connector._scheduler._attachment.client
    held = {entry["id"]: entry["leases"] for entry in peer.client.clients()}
    assert held[scheduler_client.id] == 1
    consumer.run_until(lambda: "r" in consumer.finished)
    held = {entry["id"]: entry["leases"] for entry in peer.client.clients()}
    assert held[scheduler_client.id] == 0
    peer.close()


def test_trap_01_preempted_reference_is_loaded_again(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    peer.store("again", 20)
    consumer.add(request("r", [reference("again")], max_tokens=6))
    consumer.run_until(lambda: consumer.scheduler.requests["r"].num_output_tokens >= 2)
    peer.remove("again")  # the request's own lease must be enough
    consumer.scheduler.reset_prefix_cache(reset_running_requests=True)  # preempts
    consumer.scheduler.reset_encoder_cache()
    consumer.worker.encoder_cache.clear()
    consumer.run_until(lambda: "r" in consumer.finished)
    assert str(consumer.finished["r"].finish_reason) == "length"
    assert torch.equal(consumer.worker.gathered["again"], feature_of("again", 20))
    peer.close()
