"""The demo's table: one row for each turn as it happens, one line for each of its items, and what
went wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

COLUMNS = (
    ("case", -27),
    ("P+D", 6),
    ("blind", 8),
    ("encodes", 8),
    ("skipped", 8),
    ("loads", 6),
    ("local", 6),
    ("dupl.", 6),
    ("B stored", 11),
    ("B loaded", 11),
    ("encode", 8),
    ("P+D", 7),
    ("blind", 7),
    ("coloc.", 8),
)
LEGEND = """\
P+D, blind        the two prefill+decode engines: one that could encode, and one that cannot;
                  equal: every token of the answer, and every logprob to 5 digits, is the same as
                  the colocated engine's
encodes           features that the encoder computed and published
skipped           items that the encoder did not encode, because the arena had their feature
loads             features that the two prefill+decode engines mapped from the arena
local             items that they had to encode by themselves
dupl.             features that were put although another writer had published them
B stored, loaded  payload bytes
encode .. coloc.  milliseconds until the answer"""


Tokens = tuple[tuple[str, float], ...]  # token id as text, and its logprob


@dataclass
class Item:
    name: str
    rows: int
    nbytes: int
    put: str  # stored, was there, MISSING
    hits: str  # engines that found it, of those asked
    gets: str  # engines that mapped it, of those asked


@dataclass
class TurnReport:
    title: str
    answer: Tokens = ()  # of the colocated engine
    equal: dict[str, bool] = field(default_factory=dict)  # engine -> same answer
    milliseconds: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # the columns from encodes to B loaded
    items: list[Item] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not self.problems


def _cells(values: Sequence[str]) -> str:
    return "".join(
        value.ljust(-width) if width < 0 else value.rjust(width)
        for value, (_, width) in zip(values, COLUMNS, strict=True)
    )


def header() -> str:
    line = _cells([title for title, _ in COLUMNS])
    return f"{line}\n{'-' * len(line)}"


def row(turn: TurnReport) -> str:
    """The turn's row, its items, and its problems, as lines."""
    answers = ["equal" if turn.equal.get(name) else "DIFFER" for name in ("tower", "blind")]
    names = ("encodes", "skipped", "loads", "local", "duplicates", "bytes_stored", "bytes_loaded")
    counts = [f"{turn.counts.get(name, 0):,}" for name in names]
    times = [
        f"{turn.milliseconds[name]:.0f}" if name in turn.milliseconds else "-"
        for name in ("encoder", "tower", "blind", "colocated")
    ]
    lines = [_cells([turn.title, *answers, *counts, *times])]
    lines += [
        f"    {item.name:12} {item.rows:5} rows {item.nbytes:>9,} B   put: {item.put:10}"
        f" hit: {item.hits:8} get: {item.gets}"
        for item in turn.items
    ]
    lines += [f"  ! {problem}" for problem in turn.problems]
    return "\n".join(lines)
