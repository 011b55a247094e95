"""The half of both connectors' metrics that is the same: named counts as vLLM's statistics, which
it adds up over processes and steps, and as Prometheus counters with its engine labels.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self


class CountStats:
    """Goes before vLLM's class in a class's bases. `data`: count -> how much it grew."""

    NAMES: ClassVar[Mapping[str, str]]
    data: dict[str, int]

    def reset(self) -> None:
        self.data = {}

    def aggregate(self, other: Any) -> Self:
        """Names that are not ours are left out."""
        sums = dict(self.data)
        for name, value in other.data.items():
            if name in self.NAMES:
                sums[name] = sums.get(name, 0) + value
        self.data = sums
        return self

    def reduce(self) -> dict[str, int | float]:
        return {name: value for name, value in sorted(self.data.items()) if value}

    def is_empty(self) -> bool:
        return not any(self.data.values())


class CountMetrics:
    """Goes before vLLM's class in a class's bases: one Prometheus counter for each of NAMES."""

    PREFIX: ClassVar[str]
    NAMES: ClassVar[Mapping[str, str]]
    _counter_cls: Any  # vLLM's

    def __init__(
        self,
        vllm_config: Any,
        metric_types: dict[Any, Any],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        init: Any = super().__init__
        init(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._counters: dict[str, dict[int, Any]] = {}
        for name, text in self.NAMES.items():
            family = self._counter_cls(
                name=f"{self.PREFIX}{name}", documentation=text, labelnames=labelnames
            )
            self._counters[name] = {
                engine: family.labels(*values) for engine, values in per_engine_labelvalues.items()
            }

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for name, value in transfer_stats_data.items():
            if value and name in self._counters:
                self._counters[name][engine_idx].inc(value)
