"""The table of the serving act: one row for each request through the endpoint, and where its time
went.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

COLUMNS = (
    ("request", -29),
    ("answer", 8),
    ("tokens", 7),
    ("encodes", 8),
    ("skipped", 8),
    ("features", 9),
    ("KV parts", 9),
    ("KV bytes", 11),
    ("queue", 7),
    ("encode", 7),
    ("feature", 8),
    ("prefill", 8),
    ("handoff", 8),
    ("decode", 7),
    ("total", 7),
    ("coloc.", 8),
)
STAGES = ("queue", "encode", "feature", "prefill", "handoff", "decode")
LEGEND = """\
answer            equal: every token, and every logprob to 5 digits, is the same as the colocated
                  engine's; the request went through the endpoint, the measure did not
tokens            of the prompt, image tokens included
encodes           images that the encoder was asked for
skipped           distinct images whose feature the endpoint found in the arena, so that no encoder
                  was asked
features          features that prefill mapped from the arena
KV parts, bytes   what prefill wrote into the arena, and decode copied out of it: the same amount
queue .. decode   milliseconds, as the endpoint measured them; of a streamed answer handoff lasts
                  until its first content, of a whole one it is part of decode
total, coloc.     milliseconds, as the demo measured them"""


@dataclass
class Row:
    title: str
    equal: bool = False
    counts: Sequence[int] = ()  # the columns from tokens to KV bytes
    stages: dict[str, float] = field(default_factory=dict)
    total_ms: float = 0.0
    colocated_ms: float = 0.0
    problems: list[str] = field(default_factory=list)


def _cells(values: Sequence[str]) -> str:
    return "".join(
        value.ljust(-width) if width < 0 else value.rjust(width)
        for value, (_, width) in zip(values, COLUMNS, strict=True)
    )


def header() -> str:
    line = _cells([title for title, _ in COLUMNS])
    return f"{line}\n{'-' * len(line)}"


def line(row: Row) -> str:
    counts = [f"{count:,}" for count in row.counts] or ["-"] * 6
    stages = [f"{row.stages[name]:.1f}" if name in row.stages else "-" for name in STAGES]
    cells = [
        row.title,
        "equal" if row.equal else "DIFFERS",
        *counts,
        *stages,
        f"{row.total_ms:.0f}",
        f"{row.colocated_ms:.0f}",
    ]
    return "\n".join([_cells(cells), *(f"  ! {problem}" for problem in row.problems)])
