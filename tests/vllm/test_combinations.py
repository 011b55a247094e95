"""Combinations that can never work stop start-up with one sentence; so does a vLLM that changed."""

import logging
from pathlib import Path

import pytest
from arena_process import ArenaProcess
from peer import Peer, settings_of
from sluice.vllm import combinations, compatibility
from sluice.vllm.settings import ConfigurationError
from vllm.distributed.ec_transfer.ec_connector.base import ECConnectorBase
from waiting import until
from world import World, item, request

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("role", "extra", "engine", "sentence"),
    [
        ("ec_consumer", {"soft_pin_modalities": ["video"]}, {}, "is a setting of producers"),
        ("ec_both", {"store_local_encodes": True}, {}, '"store_local_encodes" is for ec_role'),
        ("ec_consumer", {}, {"mm_processor_cache_gb": 0}, "--mm-processor-cache-gb 0"),
        ("ec_producer", {}, {"mm_processor_cache_type": "shm"}, "--mm-processor-cache-type shm"),
        ("ec_both", {}, {"scheduling_policy": "priority"}, "--scheduling-policy priority"),
        ("ec_consumer", {"shared_storage_path": "/tmp"}, {}, "ECExampleConnector"),
    ],
)
def test_impossible_combination_stops_start_up(model, arena, role, extra, engine, sentence) -> None:
    with pytest.raises(ConfigurationError, match=sentence) as caught:
        World(model, arena.directory, role, extra=extra, **engine)
    assert "\n" not in str(caught.value)


def test_encoder_cache_larger_than_the_arena_stops_start_up_unless_overridden(model) -> None:
    with ArenaProcess(size="16MiB") as small:
        options = {"max_num_batched_tokens": 65536}  # the cache holds as many rows of 512 bytes
        extra = {"allow_small_arena": False}
        with pytest.raises(ConfigurationError, match="allow_small_arena"):
            World(model, small.directory, "ec_consumer", extra=extra, **options)
        World(model, small.directory, "ec_consumer", **options).close()


def test_caches_of_all_engines_together_must_fit_the_arena(model) -> None:
    options = {"max_num_batched_tokens": 20480, "extra": {"allow_small_arena": False}}  # 10 MiB
    with ArenaProcess(size="16MiB") as small:
        first = World(model, small.directory, "ec_consumer", **options)
        with pytest.raises(ConfigurationError, match="other engines up to 10 MiB"):
            World(model, small.directory, "ec_consumer", **options)
        first.close()
        World(model, small.directory, "ec_consumer", **options).close()


def test_without_a_daemon_the_engine_serves_alone_and_attaches_later(model, caplog) -> None:
    with ArenaProcess(start=False) as arena:
        caplog.set_level(logging.WARNING)
        logging.getLogger("vllm").addHandler(caplog.handler)
        world = World(model, arena.directory, "ec_consumer")
        try:
            world.serve(request("alone", [item("A", 4, 20)]))
            assert world.worker.encoded == ["A"]
            assert world.counted("fallback_no_arena") == 1
            said = [r.getMessage() for r in caplog.records if "serves alone" in r.getMessage()]
            assert len(said) == 2  # once in each of the two processes that this one plays
            arena.start()
            peer = Peer(world, arena.directory)
            peer.store("B", 20)
            side = world.connector._scheduler
            until(lambda: side._attachment.client is not None, "attached")
            until(lambda: side._roster.all_attached(side._attachment.client.boot), "all ranks are")
            world.serve(request("together", [item("B", 4, 20)]))
            assert world.worker.encoded == ["A"]
            assert world.counted("loads") == 1
            peer.close()
        finally:
            logging.getLogger("vllm").removeHandler(caplog.handler)
            world.close()


def test_reference_without_a_daemon_fails_its_request(model) -> None:
    from world import reference_item

    with (
        ArenaProcess(start=False) as arena,
        World(model, arena.directory, "ec_consumer") as world,
    ):
        world.serve(request("r", [item("A", 4, 20, reference_item())]))
        assert str(world.finished["r"].finish_reason) == "error"
        assert world.counted("failed_no_arena") == 1


def test_strict_engine_without_a_daemon_does_not_start(model) -> None:
    with (
        ArenaProcess(start=False) as arena,
        pytest.raises(ConfigurationError, match="strict_daemon"),
    ):
        World(model, arena.directory, "ec_consumer", extra={"strict_daemon": True})


def test_engine_goes_on_after_the_daemon_restarts(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    peer.store("before", 20)
    consumer.serve(request("1", [item("before", 4, 20)]))
    arena.kill()
    consumer.serve(request("2", [item("meanwhile", 4, 20)]))
    arena.start()
    fresh = Peer(consumer, arena.directory)
    fresh.store("after", 20)
    side = consumer.connector._scheduler
    until(lambda: side._roster.all_attached(fresh.client.boot), "every rank is attached")
    until(lambda: side._attachment.client.boot == fresh.client.boot, "the scheduler is")
    consumer.serve(request("3", [item("after", 4, 20)]))
    assert consumer.worker.encoded == ["meanwhile"]
    assert consumer.counted("loads") == 2
    peer.close()
    fresh.close()


def test_hooks_of_this_vllm_are_the_expected_ones() -> None:
    compatibility.check_hooks(ECConnectorBase)


def test_missing_hook_stops_start_up() -> None:
    class Older:
        def __init__(self, vllm_config, role) -> None: ...

    with pytest.raises(ConfigurationError, match=r"has no encoder-cache hook shutdown\(\)"):
        compatibility.check_hooks(Older)


def test_changed_hook_stops_start_up() -> None:
    class Newer(ECConnectorBase):
        def has_cache_item(self, identifier, request): ...

    with pytest.raises(ConfigurationError, match=r"has_cache_item\(\) takes \(identifier, request"):
        compatibility.check_hooks(Newer)


def test_untested_version_is_said() -> None:
    assert compatibility.untested("0.32.0") is None
    assert "0.33.1" in (compatibility.untested("0.33.1") or "")


def test_all_checks_pass_for_the_ordinary_engine(engine) -> None:
    for role in ("ec_producer", "ec_consumer", "ec_both"):
        world = engine(role)
        combinations.check(world.config, settings_of(world.config))


def test_deepstack_consumer_without_its_tower_does_not_start(arena) -> None:
    """vLLM 0.32 then leaves DeepStack out of the model, and the first feature would end it."""
    import models

    folder = ROOT / "build" / "demo" / "models" / "qwen3_vl"
    models.ensure_model("qwen3_vl", folder)
    blind = {"limit_mm_per_prompt": {"image": 0, "video": 0}}
    with pytest.raises(ConfigurationError, match="leave DeepStack out"):
        World(folder, arena.directory, "ec_consumer", **blind)
    World(folder, arena.directory, "ec_producer", **blind).close()
    World(folder, arena.directory, "ec_consumer").close()
