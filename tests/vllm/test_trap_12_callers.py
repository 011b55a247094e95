"""Trap 12: what a caller says about its items is not to be trusted."""

import pytest
import torch
from peer import Peer
from world import feature_of, item, request

NONSENSE = [
    {"A": "writing"},
    {"A": {"state": 7}},
    {"A": {"state": "present"}},
    {"A": None, "": {}},
    {"do_remote": True},
]


@pytest.mark.parametrize("transfer", NONSENSE, ids=range(len(NONSENSE)))
def test_trap_12_malformed_transfer_parameters_are_ignored(engine, transfer) -> None:
    for role in ("ec_consumer", "ec_producer", "ec_both"):
        world = engine(role, extra={"tenant": role})
        world.serve(request("r", [item("A", 4, 20)], transfer=transfer))
        assert world.worker.encoded == ["A"]


def test_trap_12_claimed_as_published_is_looked_up_all_the_same(engine) -> None:
    consumer = engine("ec_consumer")
    transfer = {"A": {"state": "published", "metadata": {"image_grid_thw": [1, 4, 4]}}}
    consumer.serve(request("r", [item("A", 4, 20)], transfer=transfer))
    assert consumer.worker.encoded == ["A"]
    assert consumer.counted("loads") == 0


def test_trap_12_identifier_reused_for_another_size_is_encoded(engine, arena) -> None:
    """A promise for one request is none for another request with the same identifier."""
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    peer.store("A", 20)
    consumer.serve(request("other", [item("A", 4, 24)]))
    assert consumer.worker.encoded == ["A"]
    assert torch.equal(consumer.worker.gathered["A"], feature_of("A", 24))
    assert consumer.counted("fallback_spec_mismatch") == 1
    peer.close()


@pytest.mark.parametrize("identifier", ["", "x" * 4000, "a/b@id:c%00", "é\n"])
def test_trap_12_hostile_identifiers_end_no_engine(engine, identifier) -> None:
    for role in ("ec_consumer", "ec_producer"):
        world = engine(role, extra={"tenant": role})
        world.serve(request("r", [item(identifier, 4, 20)]))
        assert world.worker.encoded == [identifier]
