"""Trap 11: what names an item, what is stored with it, and what must not be stored at all."""

import pytest
import torch
from peer import Peer
from sluice.vllm.settings import ConfigurationError
from world import World, embeds_item, feature_of, item, request


def test_trap_11_positional_identifiers_are_refused(model, arena) -> None:
    with pytest.raises(ConfigurationError, match="--mm-processor-cache-gb 0"):
        World(model, arena.directory, "ec_producer", mm_processor_cache_gb=0)


def test_trap_11_adapters_on_the_tower_are_refused(engine) -> None:
    from types import SimpleNamespace

    from sluice.vllm import combinations

    world = engine("ec_consumer")
    world.config.lora_config = SimpleNamespace(enable_tower_connector_lora=True)
    with pytest.raises(ConfigurationError, match="--enable-tower-connector-lora"):
        combinations.check(world.config, settings(world))


def settings(world):
    from peer import settings_of

    return settings_of(world.config)


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_trap_11_grid_and_modality_travel_with_the_feature(engine, arena, runner) -> None:
    producer = engine("ec_producer", runner=runner)
    peer = Peer(producer, arena.directory)
    producer.serve(request("1", [item("A", 4, 20)]))
    peer.wait_present("A")
    with peer.client.get(peer.key("A")) as lease:
        assert lease.attributes == {"modality": "image", "rows": [20], "image_grid_thw": [1, 4, 4]}
    answer = producer.finished["1"].ec_transfer_params["A"]
    assert answer["metadata"] == {"image_grid_thw": [1, 4, 4]}
    peer.close()


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_trap_11_the_view_is_stored_and_not_the_batch_it_lies_in(engine, arena, runner) -> None:
    producer = engine("ec_producer", runner=runner)
    peer = Peer(producer, arena.directory)
    producer.serve(request("1", [item("A", 4, 20), item("B", 30, 12)]))
    for name, rows in (("A", 20), ("B", 12)):
        peer.wait_present(name)
        with peer.client.get(peer.key(name)) as lease:
            assert lease.tensors[0].shape == (rows, 256)
            stored = torch.from_dlpack(lease.array()).clone()
        assert torch.equal(stored, feature_of(name, rows))
    peer.close()


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_trap_11_local_encode_of_a_consumer_is_not_stored(engine, arena, runner) -> None:
    consumer = engine("ec_consumer", runner=runner)
    peer = Peer(consumer, arena.directory)
    consumer.serve(request("1", [item("A", 4, 20)]))
    assert consumer.worker.encoded == ["A"]
    assert peer.presence("A") == "absent"
    peer.close()


def test_trap_11_local_encode_is_stored_when_asked_for(engine, arena) -> None:
    consumer = engine("ec_consumer", extra={"store_local_encodes": True})
    peer = Peer(consumer, arena.directory)
    consumer.serve(request("1", [item("A", 4, 20)]))
    peer.wait_present("A")
    assert consumer.finished["1"].ec_transfer_params is None
    peer.close()


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_trap_11_passthrough_and_unknown_modalities_are_not_stored(engine, arena, runner) -> None:
    producer = engine("ec_producer", runner=runner)
    peer = Peer(producer, arena.directory)
    producer.serve(
        request("p", [item("P", 4, 20, modality="prompt_embeds")]),
        request("u", [item("U", 4, 20, modality="smell")]),
        request("e", [item("E", 4, 20, embeds_item())]),
    )
    assert sorted(producer.worker.encoded) == ["E", "P", "U"]
    for request_id, name in (("p", "P"), ("u", "U"), ("e", "E")):
        assert producer.finished[request_id].ec_transfer_params[name]["state"] == "absent"
        assert peer.presence(name) == "absent"
    peer.close()


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_trap_11_one_rank_writes_a_replicated_output(engine, arena, runner) -> None:
    producer = engine("ec_producer", ranks=2, runner=runner)
    peer = Peer(producer, arena.directory)
    producer.serve(request("1", [item("A", 4, 20)]))
    peer.wait_present("A")
    producer.await_count("saves", 1)
    assert producer.counted("save_duplicates") == 0
    peer.close()
