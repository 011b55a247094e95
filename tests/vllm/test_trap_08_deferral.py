"""Trap 8: a deferred request costs a core, so only what is coming is waited for."""

import time

from peer import Peer
from world import item, request


def test_trap_08_absent_feature_is_encoded_in_the_first_pass(engine) -> None:
    consumer = engine("ec_consumer")
    consumer.add(request("r", [item("A", 4, 20)]))
    assert consumer.step().scheduled == {"r": 64}
    assert consumer.worker.encoded == ["A"]
    assert consumer.counted("fallback_absent") == 1
    assert consumer.counted("local_encodes") == 1


def test_trap_08_waiting_with_media_ends_in_a_local_encode(engine, arena) -> None:
    consumer = engine("ec_consumer", extra={"wait_with_media_s": 0.2})
    peer = Peer(consumer, arena.directory)
    with peer.announced("slow", 20):
        began = time.monotonic()
        consumer.add(request("r", [item("slow", 4, 20)]))
        consumer.run_until(lambda: "r" in consumer.finished)
        assert 0.2 <= time.monotonic() - began < 5
    assert consumer.worker.encoded == ["slow"]
    assert consumer.counted("fallback_deadline") == 1
    peer.close()


def test_trap_08_a_dead_writers_announcement_ends_the_wait(engine, arena) -> None:
    consumer = engine("ec_consumer", extra={"wait_with_media_s": 60.0})
    peer = Peer(consumer, arena.directory)
    with peer.announced("abandoned", 20):
        consumer.add(request("r", [item("abandoned", 4, 20)]))
        assert not consumer.step().scheduled
    consumer.run_until(lambda: "r" in consumer.finished)
    assert consumer.counted("fallback_absent") == 1
    peer.close()


def test_trap_08_strict_consumer_fails_instead_of_encoding(engine) -> None:
    consumer = engine("ec_consumer", extra={"on_failure": "fail"})
    consumer.serve(request("r", [item("A", 4, 20)]))
    assert str(consumer.finished["r"].finish_reason) == "error"
    assert consumer.worker.encoded == []
    assert consumer.counted("failed_absent") == 1
