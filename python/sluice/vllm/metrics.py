"""The connector's counters as vLLM's own statistics and Prometheus metrics.

vLLM asks the scheduler's connector after each step. What workers counted is read from their boards
and from their step metadata, whichever is newer, because vLLM does not carry it for every role.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vllm.distributed.ec_transfer.ec_connector.metrics import (
    ECConnectorPromMetrics,
    ECConnectorStats,
)

from sluice.vllm.counters import COUNTERS, total

if TYPE_CHECKING:
    from vllm.config import VllmConfig


class SluiceECStats(ECConnectorStats):  # type: ignore[misc]  # vLLM has no types here
    """`data`: counter name -> how much it grew."""

    def reset(self) -> None:
        self.data: dict[str, int] = {}

    def aggregate(self, other: ECConnectorStats) -> "SluiceECStats":
        self.data = total([self.data, other.data])
        return self

    def reduce(self) -> dict[str, int | float]:
        return {name: value for name, value in sorted(self.data.items()) if value}

    def is_empty(self) -> bool:
        return not any(self.data.values())


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


class SluiceECPromMetrics(ECConnectorPromMetrics):  # type: ignore[misc]
    """One Prometheus counter per entry of COUNTERS, with vLLM's engine labels."""

    def __init__(
        self,
        vllm_config: "VllmConfig",
        metric_types: dict[Any, Any],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._counters: dict[str, dict[int, Any]] = {}
        for name, text in COUNTERS.items():
            family = self._counter_cls(
                name=f"sluice_ec_{name}", documentation=text, labelnames=labelnames
            )
            self._counters[name] = {
                engine: family.labels(*values) for engine, values in per_engine_labelvalues.items()
            }

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for name, value in transfer_stats_data.items():
            if value and name in self._counters:
                self._counters[name][engine_idx].inc(value)
