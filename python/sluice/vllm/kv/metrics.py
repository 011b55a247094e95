"""The connector's counts as vLLM's own statistics and Prometheus metrics.

vLLM asks the connector of each worker and of the scheduler after each step and adds the answers up.
"""

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)

from sluice.vllm.counters import Counters
from sluice.vllm.kv.counts import COUNTS
from sluice.vllm.prometheus import CountMetrics, CountStats


class SluiceKVStats(CountStats, KVConnectorStats):  # type: ignore[misc]  # vLLM has no types here
    """Counts of COUNTS."""

    NAMES = COUNTS


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


class SluiceKVPromMetrics(CountMetrics, KVConnectorPromMetrics):  # type: ignore[misc]
    """Counters of COUNTS."""

    PREFIX = "sluice_kv_"
    NAMES = COUNTS
