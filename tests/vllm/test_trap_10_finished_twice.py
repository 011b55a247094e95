"""Trap 10: `request_finished` comes twice, or for requests that were never scheduled."""

from peer import Peer
from world import item, reference_item, request


def test_trap_10_finishing_twice_releases_once(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    peer.store("A", 20)
    one = request("r", [item("A", 4, 20, reference_item())], max_tokens=50)
    consumer.add(one)
    consumer.run_until(lambda: one.num_output_tokens >= 1)
    table = consumer.connector._scheduler._consumer._table
    assert len(table) == 1
    consumer.connector.request_finished(one)
    consumer.connector.request_finished(one)
    assert len(table) == 0
    peer.close()


def test_trap_10_two_requests_share_a_lease_and_the_last_ends_it(engine, arena) -> None:
    """`n` > 1 makes several requests with the same parameters and the same items."""
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    peer.store("A", 20)
    transfer = {"A": {"state": "published"}}
    children = [
        request(f"{n}", [item("A", 4, 20, reference_item())], max_tokens=50, transfer=transfer)
        for n in range(3)
    ]
    consumer.add(*children)
    consumer.run_until(lambda: all(one.num_output_tokens >= 1 for one in children))
    table = consumer.connector._scheduler._consumer._table
    for left, child in zip((2, 1, 0), children, strict=True):
        assert len(table) == 1
        consumer.connector.request_finished(child)
        assert (len(table) == 1) == (left > 0)
    peer.close()


def test_trap_10_aborted_before_it_was_scheduled(engine, arena) -> None:
    from vllm.v1.request import RequestStatus

    for role in ("ec_consumer", "ec_producer", "ec_both"):
        world = engine(role)
        world.add(request("r", [item("A", 4, 20, reference_item())]))
        world.scheduler.finish_requests("r", RequestStatus.FINISHED_ABORTED)
        world.connector.request_finished(request("never-added", [item("A", 4, 20)]))
        assert world.scheduler.requests == {}
        world.serve(request("next", []))


def test_trap_10_aborted_while_it_waits(engine, arena) -> None:
    from vllm.v1.request import RequestStatus

    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    with peer.announced("slow", 20):
        consumer.add(request("r", [item("slow", 4, 20, reference_item())]))
        consumer.step()
        consumer.scheduler.finish_requests("r", RequestStatus.FINISHED_ABORTED)
        consumer.serve(request("next", []))
    assert consumer.connector.take_unavailable_requests() == set()
    assert consumer.connector._scheduler._consumer._requests == {}
    peer.close()
