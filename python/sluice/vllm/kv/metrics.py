"""The connector's counts as vLLM's own statistics and Prometheus metrics.

vLLM asks the connector of each worker and of the scheduler after each step and adds the answers up.
"""

from typing import TYPE_CHECKING, Any

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)

from sluice.vllm.counters import Counters
from sluice.vllm.kv.counts import COUNTS

if TYPE_CHECKING:
    from vllm.config import VllmConfig


class SluiceKVStats(KVConnectorStats):  # type: ignore[misc]  # vLLM has no types here
    """`data`: count -> how much it grew."""

    def reset(self) -> None:
        self.data: dict[str, int] = {}

    def aggregate(self, other: KVConnectorStats) -> "SluiceKVStats":
        sums = dict(self.data)
        for name, value in other.data.items():
            if name in COUNTS:
                sums[name] = sums.get(name, 0) + value
        self.data = sums
        return self

    def reduce(self) -> dict[str, int | float]:
        return {name: value for name, value in sorted(self.data.items()) if value}

    def is_empty(self) -> bool:
        return not any(self.data.values())


class Growth:
    """What this process's counts grew by since it was asked last."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._seen: dict[str, int] = {}

    def take(self) -> SluiceKVStats | None:
        now = self._counters.snapshot()
        grown = {name: value - self._seen.get(name, 0) for name, value in now.items()}
        self._seen = now
        stats = SluiceKVStats(data={name: value for name, value in grown.items() if value})
        return None if stats.is_empty() else stats


class SluiceKVPromMetrics(KVConnectorPromMetrics):  # type: ignore[misc]
    """One Prometheus counter per entry of COUNTS, with vLLM's engine labels."""

    def __init__(
        self,
        vllm_config: "VllmConfig",
        metric_types: dict[Any, Any],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._counters: dict[str, dict[int, Any]] = {}
        for name, text in COUNTS.items():
            family = self._counter_cls(
                name=f"sluice_kv_{name}", documentation=text, labelnames=labelnames
            )
            self._counters[name] = {
                engine: family.labels(*values) for engine, values in per_engine_labelvalues.items()
            }

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for name, value in transfer_stats_data.items():
            if value and name in self._counters:
                self._counters[name][engine_idx].inc(value)
