"""Trap 9: what fails at a load, and what vLLM makes of it."""

import pytest
from peer import Peer
from sluice.vllm.settings import ConfigurationError
from world import World, item, request


def test_trap_09_kv_consumer_that_would_fail_requests_is_refused(model, arena) -> None:
    kv = {"kv_connector": "ExampleConnector", "kv_role": "kv_both"}
    with pytest.raises(ConfigurationError, match="kv_load_failure_policy"):
        World(model, arena.directory, "ec_consumer", kv_transfer_config=kv)


def test_trap_09_failed_load_is_counted_complained_of_and_not_acknowledged(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    peer.store("A", 20)
    consumer.add(request("r", [item("A", 4, 20)], max_tokens=3))
    while "A" not in (output := consumer.scheduler.schedule()).ec_connector_metadata.loads:
        consumer.finish(output)
    connector = consumer.worker.connector
    meta = output.ec_connector_metadata
    good = meta.loads["A"]
    boot, *rest = good.descriptor
    meta.loads["A"] = type(good)(good.transfer, (boot + 1, *rest), 99, good.width, good.dtype)
    connector.bind_connector_metadata(meta)
    cache = {}
    connector.start_load_caches(cache)  # must not raise
    assert cache == {}
    answer = connector.build_connector_worker_meta()
    assert answer.acknowledged == {0: set()}
    assert answer.counters[0]["load_failures"] == 1
    # The same load told again, as it should have been: now it works.
    meta.loads["A"] = good
    consumer.finish(output)
    consumer.run_until(lambda: "r" in consumer.finished)
    assert str(consumer.finished["r"].finish_reason) == "length"
    peer.close()


def test_trap_09_no_exception_leaves_a_workers_hook(engine, arena) -> None:
    both = engine("ec_both")
    connector = both.worker.connector

    class Broken(dict):
        def get(self, *_):
            raise RuntimeError("broken")

        __getitem__ = get

    peer = Peer(both, arena.directory)
    peer.store("A", 20)
    both.add(request("r", [item("A", 4, 20)]))
    while "A" not in (output := both.scheduler.schedule()).ec_connector_metadata.loads:
        both.finish(output)
    both.finish(output)
    meta = output.ec_connector_metadata
    meta.saves["A"] = both.connector._scheduler._producer._media.save_spec(item("A", 4, 20))
    connector.bind_connector_metadata(meta)
    connector.start_save_caches(encoder_cache=Broken())
    connector.start_load_caches(Broken())
    connector.save_caches(Broken(), "A")
    connector.clear_connector_metadata()
    connector.save_caches({}, "A")  # a hook without metadata
    both.serve(request("next", [item("B", 4, 20)]))
    assert str(both.finished["next"].finish_reason) == "length"
    peer.close()
