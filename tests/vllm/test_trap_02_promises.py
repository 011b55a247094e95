"""Trap 2: after `has_cache_item` said True nothing is encoded, so the promise must not fail."""

import time

import torch
from arena_process import flip_byte
from peer import Peer
from world import feature_of, item, reference_item, request


def test_trap_02_promise_survives_removal_between_plan_and_load(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    stored = peer.store("A", 20)
    consumer.add(request("r", [item("A", 4, 20)]))
    output = plan_with_load(consumer, "A")
    peer.remove("A")
    consumer.finish(output)
    assert torch.equal(consumer.worker.gathered["A"], stored)
    assert consumer.counted("load_retries") == 0
    peer.close()


def test_trap_02_promise_survives_the_daemons_death(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    stored = peer.store("A", 20)
    consumer.add(request("r", [item("A", 4, 20)]))
    output = plan_with_load(consumer, "A")
    arena.kill()
    consumer.finish(output)
    assert torch.equal(consumer.worker.gathered["A"], stored)
    peer.close()


def test_trap_02_no_promise_before_the_bytes_are_verified(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    flip_byte(arena.directory, peer.store("damaged", 40))
    consumer.serve(request("r", [item("damaged", 4, 40)]))
    assert consumer.counted("corrupt") == 1
    assert consumer.counted("fallback_corrupt") == 1
    assert consumer.worker.encoded == ["damaged"]
    assert torch.equal(consumer.worker.gathered["damaged"], feature_of("damaged", 40))
    peer.close()


def test_trap_02_verified_once_is_not_verified_again_unless_always(engine, arena) -> None:
    once = engine("ec_consumer")
    always = engine("ec_consumer", extra={"verify": "always"})
    peer = Peer(once, arena.directory)
    stored = peer.store("A", 40)
    for consumer in (once, always):
        consumer.serve(request("first", [item("A", 4, 40)]))
        consumer.scheduler.reset_encoder_cache()
        consumer.worker.encoder_cache.clear()
    flip_byte(arena.directory, stored)
    for consumer in (once, always):
        consumer.serve(request("second", [item("A", 4, 40)]))
    assert once.worker.encoded == []
    assert always.worker.encoded == ["A"]
    assert always.counted("corrupt") == 1
    peer.close()


def test_trap_02_damaged_object_is_removed_so_that_it_can_be_stored_anew(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    flip_byte(arena.directory, peer.store("damaged", 40))
    consumer.serve(request("r", [item("damaged", 4, 40, reference_item())]))
    assert str(consumer.finished["r"].finish_reason) == "error"
    consumer.run_until(lambda: peer.presence("damaged") == "absent")
    peer.close()


def test_trap_02_another_shape_is_never_promised(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    peer.store("rows", 21)
    peer.store("width", 20, torch.zeros(20, 300, dtype=torch.bfloat16))
    peer.store("dtype", 20, torch.zeros(20, 256, dtype=torch.float16))
    consumer.serve(*(request(name, [item(name, 4, 20)]) for name in ("rows", "width", "dtype")))
    assert sorted(consumer.worker.encoded) == ["dtype", "rows", "width"]
    assert consumer.counted("fallback_spec_mismatch") == 3
    assert consumer.counted("loads") == 0
    peer.close()


def test_trap_02_no_promise_before_every_rank_is_attached(engine, arena) -> None:
    consumer = engine("ec_consumer", ranks=2, workers_attached=[0])
    peer = Peer(consumer, arena.directory)
    peer.store("A", 20)
    consumer.serve(request("r", [item("A", 4, 20)]))
    assert consumer.worker.encoded == ["A"]
    assert consumer.counted("fallback_ranks") == 1
    peer.close()


def test_trap_02_every_rank_maps_and_the_scheduler_lets_go_after_the_last(engine, arena) -> None:
    consumer = engine("ec_consumer", ranks=2)
    peer = Peer(consumer, arena.directory)
    stored = peer.store("A", 20)
    consumer.add(request("r", [item("A", 4, 20)], max_tokens=3))
    output = plan_with_load(consumer, "A")
    first = consumer.workers[0].run(output)
    loads = consumer.connector._scheduler._consumer._loads
    loads.acknowledge({0: set(range(100))})
    assert len(loads) == 1
    consumer.deliver(output, [first, consumer.workers[1].run(output)])
    assert len(loads) == 0
    for worker in consumer.workers:
        assert torch.equal(worker.gathered["A"], stored)
    peer.close()


def test_trap_02_unacknowledged_loads_are_repeated_and_repeats_do_nothing(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    peer.store("A", 20)
    consumer.add(request("r", [item("A", 4, 20)], max_tokens=4))
    output = plan_with_load(consumer, "A")
    result = consumer.worker.run(output)
    result.ec_connector_output = None  # the acknowledgement is lost
    step = consumer.deliver(output, [result])
    mapped = consumer.worker.encoder_cache["A"]
    repeated = consumer.step()
    assert repeated.meta.loads["A"] == step.meta.loads["A"]
    assert consumer.worker.encoder_cache["A"] is mapped
    assert consumer.counted("loads") == 1
    assert not consumer.step().meta.loads
    peer.close()


def test_trap_02_acknowledgement_on_the_board_is_enough(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    peer.store("A", 20)
    consumer.add(request("r", [item("A", 4, 20)], max_tokens=1000))
    output = plan_with_load(consumer, "A")
    result = consumer.worker.run(output)
    result.ec_connector_output = None

    def without_metadata() -> bool:
        output = consumer.scheduler.schedule()
        result = consumer.worker.run(output)
        result.ec_connector_output = None
        time.sleep(0.01)  # an engine's step takes time; boards are read on a thread meanwhile
        return not consumer.deliver(output, [result]).meta.loads

    consumer.deliver(output, [result])
    assert any(without_metadata() for _ in range(900))
    peer.close()


def plan_with_load(world, identifier):
    """Plans steps, running empty ones, until one carries the load."""
    for _ in range(5000):
        output = world.scheduler.schedule()
        if identifier in output.ec_connector_metadata.loads:
            return output
        assert not output.num_scheduled_tokens
        world.finish(output)
    raise AssertionError("no load was planned")
