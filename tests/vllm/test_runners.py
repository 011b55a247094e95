"""Both model runners' hook sequences: chunked media, steps without tokens, two in flight."""

import pytest
import torch
from peer import Peer
from world import feature_of, item, reference_item, request

RUNNERS = pytest.mark.parametrize("runner", ["v1", "v2"])


@RUNNERS
def test_features_reach_the_consumer_unchanged(engine, arena, runner) -> None:
    producer = engine("ec_producer", runner=runner)
    consumer = engine("ec_consumer", runner=runner)
    peer = Peer(producer, arena.directory)
    sizes = {"A": 20, "B": 33, "C": 7}
    producer.serve(
        *(request(name, [item(name, 4, rows)]) for name, rows in sizes.items()),
    )
    for name in sizes:
        peer.wait_present(name)
    consumer.serve(
        request("both", [item("A", 2, 20), item("B", 26, 33, reference_item())]),
        request("twice", [item("C", 2, 7), item("C", 20, 7)]),
    )
    for name, rows in sizes.items():
        assert torch.equal(consumer.worker.gathered[name], feature_of(name, rows))
    assert consumer.worker.encoded == []
    assert consumer.counted("loads") == 3
    assert consumer.counted("load_bytes") == sum(sizes.values()) * 256 * 2
    peer.close()


@RUNNERS
def test_both_role_loads_what_is_there_and_stores_what_it_encodes(engine, arena, runner) -> None:
    both = engine("ec_both", runner=runner)
    peer = Peer(both, arena.directory)
    peer.store("there", 20)
    both.serve(request("r", [item("there", 2, 20), item("new", 30, 20)]))
    assert both.worker.encoded == ["new"]
    peer.wait_present("new")
    assert both.counted("loads") == 1
    both.await_count("saves", 1)
    states = {k: v["state"] for k, v in both.finished["r"].ec_transfer_params.items()}
    assert states["there"] == "published"
    assert states["new"] in ("writing", "published")
    peer.close()


@RUNNERS
def test_chunked_prefill_loads_each_item_once(engine, arena, runner) -> None:
    consumer = engine("ec_consumer", runner=runner, max_num_batched_tokens=32)
    peer = Peer(consumer, arena.directory)
    for name in "AB":
        peer.store(name, 30)
    steps = consumer.serve(
        request("r", [item("A", 10, 30), item("B", 60, 30, reference_item())], tokens=120)
    )
    assert sum(bool(step.scheduled) for step in steps) >= 4
    assert consumer.counted("loads") == 2
    assert consumer.worker.encoded == []
    peer.close()


def test_two_steps_in_flight_map_once_and_acknowledge_once(engine, arena) -> None:
    """V2 plans the next step before it has heard of the last one."""
    consumer = engine("ec_consumer", runner="v2", max_num_batched_tokens=32)
    peer = Peer(consumer, arena.directory)
    stored = peer.store("A", 20)
    consumer.add(request("r", [item("A", 2, 20)], tokens=120))
    while "A" not in (first := consumer.scheduler.schedule()).ec_connector_metadata.loads:
        consumer.finish(first)
    second = consumer.scheduler.schedule()
    assert second.ec_connector_metadata.loads == first.ec_connector_metadata.loads
    results = [consumer.worker.run(output) for output in (first, second)]
    assert consumer.counted("loads") == 1
    for output, result in zip((first, second), results, strict=True):
        consumer.deliver(output, [result])
    consumer.run_until(lambda: "r" in consumer.finished)
    assert torch.equal(consumer.worker.gathered["A"], stored)
    peer.close()


def test_step_without_tokens_carries_loads_on_v2(engine, arena) -> None:
    consumer = engine("ec_consumer", runner="v2")
    peer = Peer(consumer, arena.directory)
    peer.store("A", 20)
    consumer.add(request("r", [item("A", 2, 20)], max_tokens=3))
    while "A" not in (output := consumer.scheduler.schedule()).ec_connector_metadata.loads:
        consumer.finish(output)
    empty = consumer.scheduler.schedule()
    empty.num_scheduled_tokens, empty.total_num_scheduled_tokens = {}, 0
    result = consumer.worker.run(empty)  # no_forward
    assert "A" in consumer.worker.encoder_cache
    acknowledged = result.ec_connector_output.ec_connector_worker_meta.acknowledged
    assert acknowledged == {0: {output.ec_connector_metadata.loads["A"].transfer}}
    peer.close()


@RUNNERS
def test_reset_of_the_encoder_cache_loads_again(engine, arena, runner) -> None:
    """vLLM resets it when weights are replaced; the connector is not told."""
    producer = engine("ec_producer", runner=runner)
    consumer = engine("ec_consumer", runner=runner)
    peer = Peer(producer, arena.directory)
    for turn in range(3):
        producer.serve(request(f"p{turn}", [item("A", 4, 20)]))
        peer.wait_present("A")
        consumer.serve(request(f"c{turn}", [item("A", 4, 20)]))
        for world in (producer, consumer):
            world.scheduler.reset_encoder_cache()
            world.worker.encoder_cache.clear()
    assert producer.counted("encodes_skipped") == 2
    producer.await_count("saves", 1)
    assert consumer.counted("loads") == 3
    assert consumer.worker.encoded == []
    peer.close()
