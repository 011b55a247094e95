"""What stops an engine that could not hand KV off, with one sentence that names the setting."""

from typing import Any

import pytest
import torch
from kv_world import KVWorld, engine_config, kv_cache
from prometheus_client import Counter, Gauge, Histogram
from sluice.vllm import SluiceKVConnector, compatibility
from sluice.vllm.kv.compatibility import HOOKS
from sluice.vllm.kv.counts import COUNTS
from sluice.vllm.kv.paged_cache import PagedCache
from sluice.vllm.kv.settings import KVSettings
from sluice.vllm.settings import ConfigurationError
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1, KVConnectorRole
from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec


def start(config: Any, cache: KVCacheConfig | None = None) -> None:
    connector = SluiceKVConnector(
        config, KVConnectorRole.SCHEDULER, kv_cache(64) if cache is None else cache
    )
    connector.shutdown()


def test_kv_settings_have_types_and_limits() -> None:
    settings = KVSettings.parse({"arena": "a", "load_timeout_s": 3, "layers_per_group": 8})
    assert (settings.arena, settings.load_timeout_s, settings.layers_per_group) == ("a", 3.0, 8)
    assert isinstance(settings.load_timeout_s, float)


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"load_timeout": 3}, '"load_timeout_s"'),
        ({"layer_group": 3}, '"layers_per_group"'),
        ({"arena": ""}, '"arena" must be a non-empty string'),
        ({"load_timeout_s": 0}, '"load_timeout_s" must be a number of seconds'),
        ({"load_timeout_s": True}, '"load_timeout_s" must be a number of seconds'),
        ({"load_timeout_s": float("nan")}, '"load_timeout_s" must be a number of seconds'),
        ({"layers_per_group": -1}, '"layers_per_group" must be a whole number'),
        ({"layers_per_group": 1.5}, '"layers_per_group" must be a whole number'),
        ({"verify": "never"}, '"verify" must be "once" or "always"'),
        ({"on_failure": "panic"}, '"on_failure" must be "fallback" or "fail"'),
        ({"strict_daemon": "yes"}, '"strict_daemon" must be true or false'),
    ],
)
def test_kv_settings_refuse_by_name(extra, says) -> None:
    with pytest.raises(ConfigurationError) as refused:
        KVSettings.parse(extra)
    assert says in str(refused.value)
    assert "kv_connector_extra_config" in str(refused.value)


def test_kv_consumer_must_recompute_what_fails_to_load(model, arena) -> None:
    with pytest.raises(ConfigurationError, match='"kv_load_failure_policy" is "fail"'):
        start(engine_config(model, arena.directory, "kv_consumer", policy="fail"))
    start(engine_config(model, arena.directory, "kv_producer", policy="fail"))
    strict = {"on_failure": "fail"}
    start(engine_config(model, arena.directory, "kv_consumer", strict, policy="fail"))
    with pytest.raises(ConfigurationError, match='it must be "fail"'):
        start(engine_config(model, arena.directory, "kv_consumer", strict))


def test_kv_several_cache_groups_are_refused(model, arena) -> None:
    (group,) = kv_cache(64).kv_cache_groups
    two = KVCacheConfig(
        num_blocks=64,
        kv_cache_tensors=[],
        kv_cache_groups=[group, KVCacheGroupSpec(["other"], group.kv_cache_spec)],
    )
    with pytest.raises(ConfigurationError, match="2 KV cache groups"):
        start(engine_config(model, arena.directory, "kv_producer"), two)


@pytest.mark.parametrize("name", ["pipeline", "prefill_context", "decode_context"])
def test_kv_parallel_layouts_that_spread_a_rank_are_refused(model, arena, name) -> None:
    config = engine_config(model, arena.directory, "kv_producer")
    attribute = f"{name}_parallel_size"
    before = getattr(config.parallel_config, attribute)
    setattr(config.parallel_config, attribute, 2)
    try:
        with pytest.raises(ConfigurationError, match=attribute.replace("_", "-")):
            start(config)
    finally:
        setattr(config.parallel_config, attribute, before)


def test_kv_heads_that_ranks_cannot_share_are_refused(model, arena) -> None:
    with pytest.raises(ConfigurationError, match="2 KV heads cannot be shared evenly"):
        start(engine_config(model, arena.directory, "kv_producer", ranks=3))


def test_kv_strict_daemon_needs_one(model, tmp_path) -> None:
    extra = {"strict_daemon": True, "attach_timeout_s": 0.1}
    with pytest.raises(ConfigurationError, match="strict_daemon"):
        start(engine_config(model, str(tmp_path / "none"), "kv_producer", extra))


def paged(tensors: dict[str, torch.Tensor]) -> PagedCache:
    return PagedCache(tensors, kv_cache(4), "tests", 0)


def test_kv_caches_that_cannot_be_read_are_refused() -> None:
    good = torch.zeros(4, 2, 16, 8)
    assert paged({"layers.0": good, "layers.1": good.clone()}).layers == 2
    with pytest.raises(ConfigurationError, match="shape"):
        paged({"layers.0": torch.zeros(2, 4, 16, 2, 8)})
    with pytest.raises(ConfigurationError, match="where the first layer's is"):
        paged({"layers.0": good, "layers.1": torch.zeros(4, 1, 16, 8)})
    with pytest.raises(ConfigurationError, match="not contiguous"):
        paged({"layers.0": torch.zeros(4, 2, 16, 16)[..., ::2]})
    with pytest.raises(ConfigurationError, match="meta"):
        paged({"layers.0": torch.zeros(4, 2, 16, 8, device="meta")})
    with pytest.raises(ConfigurationError, match="3 blocks"):
        paged({"layers.0": torch.zeros(3, 2, 16, 8)})


def test_kv_layers_are_ordered_by_their_number_not_their_name() -> None:
    tensors = {f"layers.{n}": torch.zeros(4, 2, 16, 8) for n in (10, 9, 0, 2)}
    cache = paged(tensors)
    assert cache.groups == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert cache.completes == {"layers.0": 0, "layers.2": 1, "layers.9": 2, "layers.10": 3}


def test_kv_engine_whose_cache_has_smaller_blocks_than_its_scheduler() -> None:
    cache = PagedCache({"layers.0": torch.zeros(12, 2, 16, 8)}, kv_cache(4), "tests", 0)
    assert cache.native_ids((3, 0)) == [9, 10, 11, 0, 1, 2]
    assert cache.native_count(2) == 6


def test_kv_hooks_of_this_vllm_are_the_expected_ones() -> None:
    compatibility.check_hooks(KVConnectorBase_V1, HOOKS, "KV")

    class Other(KVConnectorBase_V1):
        def save_kv_layer(self, layer_name, kv_layer):
            raise NotImplementedError

    with pytest.raises(ConfigurationError, match=r"KV hook save_kv_layer\(\)"):
        compatibility.check_hooks(Other, HOOKS, "KV")


def test_kv_metrics_have_one_counter_for_each_count(model, arena) -> None:
    config = engine_config(model, arena.directory, "kv_producer")
    types: dict[Any, Any] = {Gauge: Gauge, Counter: Counter, Histogram: Histogram}
    metrics = SluiceKVConnector.build_prom_metrics(config, types, ["engine"], {0: ["0"]})
    one = SluiceKVConnector.build_kv_connector_stats({"parts_sent": 2})
    total = one.aggregate(SluiceKVConnector.build_kv_connector_stats({"parts_sent": 3, "x": 1}))
    assert total.reduce() == {"parts_sent": 5}
    metrics.observe(total.data, 0)
    assert metrics._counters.keys() == COUNTS.keys()
    assert metrics._counters["parts_sent"][0]._value.get() == 5


def test_kv_start_up_of_a_worker_is_told_its_rank(model, arena) -> None:
    with KVWorld(model, arena.directory, "kv_producer", ranks=2) as world:
        labels = {entry["label"].rsplit("/", 1)[1] for entry in world_clients(world)}
    assert labels == {"scheduler", "worker0", "worker1"}


def world_clients(world: KVWorld) -> list[Any]:
    side = world.connector._scheduler
    assert side is not None
    client = side._attachment.client
    assert client is not None
    return [entry for entry in client.clients() if entry["label"].startswith("vllm-kv/")]
