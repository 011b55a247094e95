"""Trap 4: what the arena lost and the engine's cache still holds is not encoded again."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from arena_process import ArenaProcess
from peer import Peer
from sluice.vllm import tensors
from waiting import until
from world import item, request


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_trap_04_lost_feature_is_published_again_from_the_engines_cache(
    engine, arena, runner
) -> None:
    producer = engine("ec_producer", runner=runner)
    peer = Peer(producer, arena.directory)
    producer.serve(request("1", [item("A", 4, 20)]))
    peer.wait_present("A")
    peer.remove("A")
    assert peer.presence("A") == "absent"
    steps = producer.serve(request("2", [item("A", 4, 20)]))
    assert steps[0].meta.republish.keys() == {"A"}
    assert producer.worker.encoded == ["A"]  # once, by the first request
    assert producer.finished["2"].ec_transfer_params["A"]["state"] in ("writing", "published")
    peer.wait_present("A")
    producer.await_count("republished", 1)
    peer.close()


def test_trap_04_present_feature_is_not_written_again(engine, arena) -> None:
    producer = engine("ec_producer")
    peer = Peer(producer, arena.directory)
    producer.serve(request("1", [item("A", 4, 20)]))
    peer.wait_present("A")
    producer.serve(request("2", [item("A", 4, 20)]))
    assert producer.finished["2"].ec_transfer_params["A"]["state"] == "published"
    producer.await_count("saves", 1)
    producer.await_count("republished", 0)
    peer.close()


def test_trap_04_encode_is_skipped_only_under_a_lease(engine, arena) -> None:
    """A skipped encode leaves nothing in the engine's cache, so the arena must keep it."""
    producer = engine("ec_producer")
    peer = Peer(producer, arena.directory)
    peer.store("A", 20)
    producer.serve(request("1", [item("A", 4, 20)]))
    assert producer.worker.encoded == []
    assert producer.counted("encodes_skipped") == 1
    scheduler_client = producer.connector._scheduler._attachment.client
    held = {entry["id"]: entry["leases"] for entry in peer.client.clients()}
    assert held[scheduler_client.id] == 1
    assert producer.finished["1"].ec_transfer_params["A"]["state"] == "published"
    peer.close()


def test_trap_04_lease_of_a_skipped_encode_ends_when_vllm_frees_the_entry(engine, arena) -> None:
    producer = engine("ec_producer", max_num_batched_tokens=64)  # the cache holds 64 rows
    producer.scheduler.encoder_cache_manager.cache_size = 40
    producer.scheduler.encoder_cache_manager.reset()
    peer = Peer(producer, arena.directory)
    for name in "ABC":
        peer.store(name, 20)
    for name in "ABC":
        producer.serve(request(name, [item(name, 4, 20)]))
    producer.step()
    assert set(producer.connector._scheduler._producer._kept) == {"B", "C"}
    peer.close()


@contextmanager
def another_arena(producer, arena: ArenaProcess) -> Iterator[Peer]:
    """The daemon is ended with its arena, and another one serves; both sides have followed."""
    arena.stop()
    arena.start()
    fresh = Peer(producer, arena.directory)
    sides = (producer.connector._scheduler, producer.worker.connector._worker)
    until(
        lambda: all(side._attachment.client.boot == fresh.client.boot for side in sides),
        "both sides are attached to it",
    )
    yield fresh
    fresh.close()


def test_trap_04_what_was_skipped_is_carried_over_into_another_arena(engine, arena) -> None:
    producer = engine("ec_producer")
    peer = Peer(producer, arena.directory)
    stored = peer.store("A", 20)
    producer.serve(request("1", [item("A", 4, 20)]))
    with another_arena(producer, arena) as fresh:
        producer.serve(request("2", [item("A", 4, 20)]))
        assert producer.finished["2"].ec_transfer_params["A"]["state"] in ("writing", "published")
        fresh.wait_present("A")
        producer.await_count("republished", 1)
        assert producer.worker.encoded == []  # vLLM takes it for encoded
        with fresh.client.get(fresh.key("A")) as lease:
            assert torch.equal(tensors.over(lease), stored)
        producer.serve(request("3", [item("A", 4, 20)]))
        assert producer.finished["3"].ec_transfer_params["A"]["state"] == "published"
        scheduler_client = producer.connector._scheduler._attachment.client
        held = {entry["id"]: entry["leases"] for entry in fresh.client.clients()}
        assert held[scheduler_client.id] == 1  # kept from now on, as in the arena before
    producer.await_count("republished", 1)
    producer.await_count("republish_missing", 0)
    peer.close()


def test_trap_04_what_was_skipped_is_encoded_when_neither_arena_nor_cache_has_it(
    engine, arena
) -> None:
    producer = engine("ec_producer")
    peer = Peer(producer, arena.directory)
    peer.store("A", 20)
    producer.serve(request("1", [item("A", 4, 20)]))
    with another_arena(producer, arena) as fresh:
        producer.scheduler.encoder_cache_manager.reset()
        producer.serve(request("2", [item("A", 4, 20)]))
        assert producer.worker.encoded == ["A"]
        assert producer.counted("encodes_skipped") == 1
        fresh.wait_present("A")
    peer.close()


def test_trap_04_answer_says_what_the_arena_says(engine, arena) -> None:
    producer = engine("ec_producer")
    peer = Peer(producer, arena.directory)
    arena.kill()  # nothing can be stored any more
    producer.serve(request("1", [item("A", 4, 20)]))
    answer = producer.finished["1"].ec_transfer_params
    assert answer["A"]["state"] == "absent"
    assert "metadata" not in answer["A"]  # so that nobody drops the media
    assert answer["A"]["item_indices"] == [0]
    peer.close()


def test_trap_04_another_medium_under_the_same_identifier_is_not_reported(engine, arena) -> None:
    producer = engine("ec_producer")
    peer = Peer(producer, arena.directory)
    peer.store("A", 33)
    producer.serve(request("1", [item("A", 4, 20)]))
    assert producer.finished["1"].ec_transfer_params["A"]["state"] == "absent"
    assert producer.counted("save_failures") == 1
    peer.close()
