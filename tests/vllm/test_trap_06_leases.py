"""Trap 6: vLLM says when a reference is dropped, not when the tensor is."""

import gc

import pytest
import torch
from peer import Peer
from world import feature_of, item, request


def lease_count(peer, world) -> int:
    client = world.worker.connector._worker._attachment.client
    return {entry["id"]: int(entry["leases"]) for entry in peer.client.clients()}[client.id]


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_trap_06_lease_lives_as_long_as_its_tensor_is_in_the_cache(engine, arena, runner) -> None:
    consumer = engine("ec_consumer", runner=runner)
    peer = Peer(consumer, arena.directory)
    peer.store("A", 20)
    consumer.serve(request("r", [item("A", 4, 20)]))
    assert "A" in consumer.worker.encoder_cache  # idle, and still there
    assert lease_count(peer, consumer) == 1
    del consumer.worker.encoder_cache["A"]
    consumer.serve(request("text", [], max_tokens=2))  # hooks run
    gc.collect()
    assert lease_count(peer, consumer) == 0
    peer.close()


def test_trap_06_replaced_value_ends_the_lease(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    peer.store("A", 20)
    consumer.serve(request("r", [item("A", 4, 20)]))
    consumer.worker.encoder_cache["A"] = feature_of("A", 20)
    consumer.serve(request("text", [], max_tokens=2))
    gc.collect()
    assert lease_count(peer, consumer) == 0
    peer.close()


def test_trap_06_tensor_in_use_keeps_the_bytes_after_the_entry_is_gone(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    stored = peer.store("A", 20)
    consumer.serve(request("r", [item("A", 4, 20)]))
    in_use = consumer.worker.encoder_cache.pop("A")
    consumer.serve(request("text", [], max_tokens=2))
    peer.remove("A")
    for index in range(8):  # somebody else's bytes would go where they find room
        peer.store(f"other{index}", 20)
    assert torch.equal(in_use, stored)
    peer.close()


def test_trap_06_stray_write_stays_in_this_engine(engine, arena) -> None:
    consumer, other = engine("ec_consumer"), engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    stored = peer.store("A", 20)
    consumer.serve(request("r", [item("A", 4, 20)]))
    consumer.worker.encoder_cache["A"].zero_()
    other.serve(request("r", [item("A", 4, 20)]))
    assert torch.equal(other.worker.gathered["A"], stored)
    peer.close()


def test_trap_06_idle_entries_are_copied_out_of_a_full_arena(engine, arena) -> None:
    consumer = engine("ec_consumer", extra={"pinned_share_max": 0.0001})
    peer = Peer(consumer, arena.directory)
    stored = {name: peer.store(name, 20) for name in "AB"}
    worker_side = consumer.worker.connector._worker
    for name in "AB":
        consumer.serve(request(name, [item(name, 4, 20)]))
    assert lease_count(peer, consumer) == 2
    worker_side._consumer._pins._allowed_bytes = 1000  # as above the high watermark
    consumer.serve(request("text", [], max_tokens=2))
    gc.collect()
    assert lease_count(peer, consumer) == 0
    assert consumer.counted("copied_out") == 2
    for name, tensor in stored.items():
        assert torch.equal(consumer.worker.encoder_cache[name], tensor)
    peer.close()


def test_trap_06_pin_budget_follows_the_arena(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    pins = consumer.worker.connector._worker._consumer._pins
    pins.refresh(peer.client)
    assert pins.excess(1 << 40) == 0  # an empty arena is short of nothing
    wide = torch.zeros(8192, 256, dtype=torch.bfloat16)
    for index in range(16):
        peer.store(f"fill{index}", 8192, wide + index)
    pins.refresh(peer.client)
    quarter = int(peer.client.stats()["arena_bytes"]) // 4
    assert pins.excess(quarter + 5) == 5
    peer.close()
