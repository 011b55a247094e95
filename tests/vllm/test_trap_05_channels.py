"""Trap 5: half of vLLM's channel between workers and scheduler is missing, so boards carry it."""

import time

import torch
from peer import Peer
from world import item, reference_item, request


def test_trap_05_producers_worker_counts_reach_the_scheduler(engine, arena) -> None:
    """On V1 an encode-only worker's metadata is dropped by vLLM."""
    producer = engine("ec_producer")
    peer = Peer(producer, arena.directory)
    for step in producer.serve(request("1", [item("A", 4, 20)])):
        assert step.result.ec_connector_output is None
    peer.wait_present("A")
    seen: dict[str, int] = {}
    deadline = time.monotonic() + 5
    while seen.get("saves") != 1 and time.monotonic() < deadline:
        for name, value in producer.connector.get_ec_connector_stats().data.items():
            seen[name] = seen.get(name, 0) + value
    assert seen["saves"] == 1
    assert seen["save_bytes"] == 20 * 256 * 2
    peer.close()


def test_trap_05_load_planned_on_a_step_without_tokens_is_repeated(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    stored = peer.store("A", 20)
    consumer.add(request("r", [item("A", 4, 20, reference_item())], max_tokens=3))
    while "A" not in (output := consumer.scheduler.schedule()).ec_connector_metadata.loads:
        consumer.finish(output)
    # V1 hands nothing to the connector on such a step; here the whole step is lost.
    lost = output.ec_connector_metadata
    output.ec_connector_metadata = consumer.connector.build_connector_meta(output)
    assert output.ec_connector_metadata.loads == lost.loads
    consumer.finish(output)
    assert torch.equal(consumer.worker.gathered["A"], stored)
    peer.close()


def test_trap_05_a_finished_request_is_never_kept(engine, arena) -> None:
    """(True, …) would leak the request on an engine without a KV connector."""
    for role in ("ec_producer", "ec_consumer", "ec_both"):
        one = engine(role)
        keep, _ = one.connector.request_finished(request("r", [item("A", 4, 20)]))
        assert keep is False
        one.serve(request("s", [item("B", 4, 20)]))
        assert one.scheduler.requests == {}


def test_trap_05_stats_are_the_growth_since_the_last_call(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    peer.store("A", 20)
    consumer.connector.get_ec_connector_stats()
    consumer.scheduler.log_stats = False
    consumer.connector.get_ec_connector_stats()
    sides = consumer.connector._scheduler
    sides._counters.add("hits", 3)
    assert consumer.connector.get_ec_connector_stats().data["hits"] == 3
    assert consumer.connector.get_ec_connector_stats().is_empty()
    peer.close()
