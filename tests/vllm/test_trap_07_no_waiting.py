"""Trap 7: what waits inside a step stalls every other stream of the engine."""

import time
from collections.abc import Callable, Iterable, Iterator

from peer import Peer
from world import item, request

LIMIT_S = 1.5  # below every wait that a daemon could cause, far above a step
PATIENCE_S = 30.0


def longest(steps_of: Iterable[Callable[[], object]]) -> float:
    worst = 0.0
    for run in steps_of:
        began = time.monotonic()
        run()
        worst = max(worst, time.monotonic() - began)
    return worst


def test_trap_07_consumer_never_waits_for_a_stopped_daemon(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    peer.store("A", 20)
    arena.pause()
    consumer.add(
        request("here", [item("A", 4, 20)]),
        request("not-here", [item("B", 4, 20)]),
        request("text", [], max_tokens=8),
    )
    asked = {"here", "not-here", "text"}

    def steps() -> Iterator[Callable[[], object]]:
        # The feature is checked on a thread: how many steps pass meanwhile is the machine's affair.
        deadline = time.monotonic() + PATIENCE_S
        while not asked <= consumer.finished.keys() and time.monotonic() < deadline:
            yield consumer.step

    assert longest(steps()) < LIMIT_S
    arena.resume()
    assert asked <= consumer.finished.keys()
    assert consumer.counted("loads") == 1
    peer.close()


def test_trap_07_producer_waits_no_longer_than_its_reserve_timeout(engine, arena) -> None:
    producer = engine("ec_producer", extra={"reserve_timeout_s": 0.05})
    producer.serve(request("first", [item("A", 4, 20)]))
    arena.pause()
    producer.add(request("second", [item("B", 4, 20)]))
    assert longest([producer.step] * 3) < LIMIT_S
    assert producer.finished["second"].ec_transfer_params["B"]["state"] == "absent"
    arena.resume()
    assert producer.counted("save_failures") == 1


def test_trap_07_announced_feature_does_not_stall_other_requests(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    with peer.announced("slow", 20):
        consumer.add(request("waits", [item("slow", 4, 20)]), request("text", [], max_tokens=8))
        for _ in range(8):
            assert "text" in consumer.step().scheduled
        assert "waits" not in consumer.finished
        assert "text" in consumer.finished
    peer.close()
