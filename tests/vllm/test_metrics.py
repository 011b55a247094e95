"""Counts as vLLM shows them: its statistics, its log line and its Prometheus metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from sluice.vllm import SluiceECConnector
from sluice.vllm.counters import COUNTERS, Counters, total
from sluice.vllm.metrics import Growth, SluiceECStats
from world import item, request


def test_every_count_is_a_metric_with_the_engines_labels(engine) -> None:
    registry = CollectorRegistry()

    def in_registry(kind):
        return lambda **options: kind(registry=registry, **options)

    world = engine("ec_consumer")
    types = {kind: in_registry(kind) for kind in (Gauge, Counter, Histogram)}
    metrics = SluiceECConnector.build_prom_metrics(
        world.config, types, ["model_name", "engine"], {0: ["m", "0"], 1: ["m", "1"]}
    )
    metrics.observe({"loads": 3, "load_bytes": 7, "nobody-knows": 1}, engine_idx=1)
    labels = {"model_name": "m", "engine": "1"}
    assert registry.get_sample_value("sluice_ec_loads_total", labels) == 3
    assert registry.get_sample_value("sluice_ec_load_bytes_total", labels) == 7
    for name in COUNTERS:
        value = registry.get_sample_value(
            f"sluice_ec_{name}_total", {"model_name": "m", "engine": "0"}
        )
        assert value == 0, name


def test_statistics_survive_the_way_through_vllm(engine) -> None:
    """The scheduler hands `data` over; the front end builds the object anew and adds it up."""
    world = engine("ec_consumer")
    world.serve(request("r", [item("A", 4, 20)]))
    data = {"local_encodes": 1, "fallback_absent": 1}
    one = SluiceECConnector.build_ec_connector_stats(data)
    both = one.aggregate(SluiceECConnector.build_ec_connector_stats(data))
    assert both.reduce() == {"fallback_absent": 2, "local_encodes": 2}
    both.reset()
    assert both.is_empty()


def test_growth_counts_a_restarted_process_from_zero() -> None:
    growth = Growth()
    assert growth.take({"w": {"loads": 5}}).data == {"loads": 5}
    assert growth.take({"w": {"loads": 7}}).data == {"loads": 2}
    assert growth.take({"w": {"loads": 1}}).data == {"loads": 1}


def test_unknown_counts_are_left_out() -> None:
    assert total([{"loads": 1, "x": 2}, {"loads": 2}]) == {"loads": 3}
    assert isinstance(Growth().take({}), SluiceECStats)


def test_counts_only_grow_and_change_the_version() -> None:
    counters = Counters()
    before = counters.version
    counters.add("loads", 2)
    assert counters.snapshot() == {"loads": 2}
    assert counters.version != before
