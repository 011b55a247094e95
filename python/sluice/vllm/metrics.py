"""The connector's counters as vLLM's own statistics and Prometheus metrics.

vLLM asks the scheduler's connector after each step. What workers counted is read from their boards
and from their step metadata, whichever is newer, because vLLM does not carry it for every role.
"""

from collections.abc import Mapping

from vllm.distributed.ec_transfer.ec_connector.metrics import (
    ECConnectorPromMetrics,
    ECConnectorStats,
)

from sluice.vllm.counters import COUNTERS, total
from sluice.vllm.prometheus import CountMetrics, CountStats


class SluiceECStats(CountStats, ECConnectorStats):  # type: ignore[misc]  # vLLM has no types here
    """Counts of COUNTERS."""

    NAMES = COUNTERS


class Growth:
    """What grew since it was asked last, over this process and the engine's workers."""

    def __init__(self) -> None:
        self._seen: dict[object, dict[str, int]] = {}

    def take(self, sources: Mapping[object, Mapping[str, int]]) -> SluiceECStats:
        """`sources`: cumulative counters by process. A restarted one counts from zero again."""
        grown: list[dict[str, int]] = []
        for source, counters in sources.items():
            before = self._seen.get(source, {})
            self._seen[source] = dict(counters)
            grown.append(
                {name: value - _before(before, name, value) for name, value in counters.items()}
            )
        return SluiceECStats(data=total(grown))


def _before(before: Mapping[str, int], name: str, value: int) -> int:
    seen = before.get(name, 0)
    return seen if seen <= value else 0


class SluiceECPromMetrics(CountMetrics, ECConnectorPromMetrics):  # type: ignore[misc]
    """Counters of COUNTERS."""

    PREFIX = "sluice_ec_"
    NAMES = COUNTERS
