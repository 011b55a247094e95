"""Figures, and the samples they come from."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from programs import Series


def pair_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The median of the quotients of pairs that were measured side by side."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


@dataclass
class Results:
    """What has been measured so far. A figure is one of bars.BARS."""

    figures: dict[str, float] = field(default_factory=dict)
    samples: dict[str, Series] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def put(self, name: str, figure: float, samples: Series, note: str = "") -> None:
        self.figures[name] = figure
        self.samples[name] = samples
        if note:
            self.notes[name] = note
