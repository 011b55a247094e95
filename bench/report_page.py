"""The serving report as text: a table, and in words where taking engines apart pays and where not.

Everything said is computed from what was measured.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import machine
from report_cells import Cell, Measured, Spread

SAME = 0.05  # quotients within this of 1 count as equal
BASE, OURS, PEER = "colocated", "sluice", "disk"
STAGES = ("queue", "encode", "feature", "prefill", "handoff")
HEAD = (
    f"{'image':6}{'repeat':>7}{'at once':>8}  {'arm':10}{'n':>4}{'req/s':>7}{'tok/s':>7}"
    f"{'TTFT ms: mean':>15}{'median':>8}{'P99':>8}{'TPOT: mean':>12}{'median':>8}{'P99':>8}"
    f"{'ITL: mean':>11}{'median':>8}{'P99':>8}{'CPU s':>7}{'feat. MB':>10}{'KV MB':>7}{'equal':>8}"
)
LEGEND = """\
n          requests measured; P99 of fewer than 100 samples is the largest
TTFT       from sending the request to the first event with content; TPOT: the rest of an answer's
           time by its tokens but one; ITL: between two events of one stream
CPU s      processor time of all of the arm's processes, for one request
feat. MB   features stored for one request, in files or in the arena; KV MB: handed to decode
equal      answers whose tokens are those of the first arm, all of them greedy
repeat     share of requests with an image that every arm was shown a moment before; no engine's own
           cache is emptied, so a repeated image is not encoded by the colocated engine either"""


def entry(one: Measured) -> dict[str, Any]:
    """One arm in one cell, for report.json; times in milliseconds."""
    out: dict[str, Any] = {"arm": one.arm, **asdict(one.cell)}
    if one.failure:
        return out | {"failure": one.failure}
    return out | {
        "requests": len(one.answers),
        "requests_per_s": one.requests_per_s,
        "tokens_per_s": one.tokens_per_s,
        "ttft_ms": asdict(one.ttft),
        "tpot_ms": asdict(one.tpot),
        "itl_ms": asdict(one.itl),
        "cpu_s_per_request": one.cpu_s / len(one.answers),
        "bytes_moved": asdict(one.moved),
        "stages_ms": one.stages_ms,
        "equal": one.equal,
    }


def text(
    arms: Sequence[tuple[str, str]], measured: Sequence[Measured], problems: Sequence[str]
) -> str:
    facts = machine.facts()
    lines = [
        "Serving: one OpenAI endpoint, three ways to run what is behind it",
        "",
        f"{facts['processors']} processors ({facts['processor']}), shared by all engines of an "
        "arm; every engine computes on one thread",
        *(f"  {name:10} {description}" for name, description in arms),
        "",
        HEAD,
        "-" * len(HEAD),
    ]
    last: Cell | None = None
    for one in sorted(measured, key=_place):
        cell = one.cell
        title = f"{cell.size:6}{cell.repeated_percent:>5} %{cell.concurrent:>8}"
        lines.append((title if cell != last else " " * len(title)) + f"  {one.arm:10}{_row(one)}")
        last = cell
    lines += ["", LEGEND, "", *_stages(measured), *verdict(measured)]
    lines += [f"! {problem.splitlines()[0]}" for problem in problems]
    return "\n".join(lines)


def _place(one: Measured) -> tuple[str, int, int, int]:
    order = (BASE, PEER, OURS)
    cell = one.cell
    size = "0" if cell.size == "small" else "1"
    return size, cell.repeated_percent, cell.concurrent, order.index(one.arm)


def _row(one: Measured) -> str:
    if one.failure:
        return f"  failed: {one.failure[:80]}"
    count = len(one.answers)
    equal = "" if one.equal is None else f"{one.equal}/{count}"
    return (
        f"{count:>4}{one.requests_per_s:>7.2f}{one.tokens_per_s:>7.1f}"
        f"{_times(one.ttft, 15)}{_times(one.tpot, 12)}{_times(one.itl, 11)}"
        f"{one.cpu_s / count:>7.2f}{one.moved.features_stored / count / 1e6:>10.2f}"
        f"{one.moved.kv / count / 1e6:>7.2f}{equal:>8}"
    )


def _times(spread: Spread, first: int) -> str:
    cells = zip((first, 8, 8), (spread.mean, spread.median, spread.p99), strict=True)
    return "".join(f"{value:>{width}.0f}" for width, value in cells)


def _stages(measured: Sequence[Measured]) -> list[str]:
    """Where our arm's time to first token went, as its proxy measured it."""
    ours = [one for one in measured if one.arm == OURS and one.stages_ms]
    if not ours:
        return []
    lines = [
        "Where the time to first token went (sluice; mean ms; handoff: until decode has content)",
        "  " + "".join(f"{name:>9}" for name in STAGES),
    ]
    for one in sorted(ours, key=_place):
        shown = "".join(f"{one.stages_ms.get(name, 0.0):>9.0f}" for name in STAGES)
        lines.append(f"  {shown}  {one.cell.title}")
    return [*lines, ""]


def verdict(measured: Sequence[Measured]) -> list[str]:
    """Where our arm is better, worse or the same, against each other arm."""
    lines = ["Where it pays, and where it does not"]
    for other, name in ((BASE, "one colocated engine"), (PEER, "vLLM's disk connector")):
        pairs = list(_pairs(measured, other))
        if not pairs:
            lines.append(f"  Against {name}: not measured.")
            continue
        lines.append(f"  Against {name}, in {len(pairs)} cells:")
        lines += [f"    {line}" for line in _against(pairs)]
    lines += [f"  {line}" for line in _equality(measured)]
    return [
        *lines,
        "  An arm of several engines computes on as many threads: its requests a second gain by",
        "  that, its processor time a request does not.",
    ]


def _pairs(measured: Sequence[Measured], other: str) -> Iterable[tuple[Measured, Measured]]:
    """(ours, theirs) of every cell that both have."""
    good = {(one.arm, one.cell): one for one in measured if not one.failure}
    for (arm, cell), ours in good.items():
        if arm == OURS and (other, cell) in good:
            yield ours, good[other, cell]


def _against(pairs: list[tuple[Measured, Measured]]) -> list[str]:
    quantities = {
        "first token (mean TTFT)": [(b.ttft.mean / a.ttft.mean, a.cell) for a, b in pairs],
        "later tokens (mean TPOT)": [(b.tpot.mean / a.tpot.mean, a.cell) for a, b in pairs],
        "requests a second": [(a.requests_per_s / b.requests_per_s, a.cell) for a, b in pairs],
        "processor time a request": [
            (b.cpu_s / len(b.answers) / (a.cpu_s / len(a.answers)), a.cell) for a, b in pairs
        ],
    }
    lines = []
    for name, gains in quantities.items():
        known = [(gain, cell) for gain, cell in gains if math.isfinite(gain)]
        if known:
            lines.append(f"{name}: {_summary(known)}")
    return lines


def _summary(gains: list[tuple[float, Cell]]) -> str:
    """`gains`: above 1 is better for us."""
    better = [(gain, cell) for gain, cell in gains if gain > 1 + SAME]
    worse = [(gain, cell) for gain, cell in gains if gain < 1 / (1 + SAME)]
    same = len(gains) - len(better) - len(worse)
    parts = []
    if better:
        gain, cell = max(better, key=lambda one: one[0])
        parts.append(f"better in {len(better)} (at most {gain:.2f} x: {cell.title})")
    if worse:
        gain, cell = min(worse, key=lambda one: one[0])
        parts.append(f"worse in {len(worse)} (at most {1 / gain:.2f} x: {cell.title})")
    if same:
        parts.append(f"within {SAME:.0%} in {same}")
    told = ", ".join(parts)
    if not better:
        return f"it does not pay: {told}"
    if worse:
        never = _never(gains)
        return f"{told}{f'; it never pays with {never}' if never else ''}"
    return told


def _never(gains: list[tuple[float, Cell]]) -> str:
    """The conditions under which no cell is better."""
    conditions: dict[str, list[float]] = {}
    for gain, cell in gains:
        for name in (
            f"{cell.concurrent} at once",
            f"{cell.repeated_percent} % repeated",
            f"{cell.size} images",
        ):
            conditions.setdefault(name, []).append(gain)
    return ", ".join(name for name, found in conditions.items() if max(found) <= 1 + SAME)


def _equality(measured: Sequence[Measured]) -> list[str]:
    lines = []
    for arm in (PEER, OURS):
        compared = [one for one in measured if one.arm == arm and one.equal is not None]
        if not compared:
            continue
        equal = sum(one.equal or 0 for one in compared)
        count = sum(len(one.answers) for one in compared)
        line = f"Answers of {arm} that equal those of the first arm: {equal} of {count}"
        alone = [one for one in compared if one.cell.concurrent == 1]
        if equal < count and alone:
            lonely = sum(one.equal or 0 for one in alone)
            line += (
                f" ({lonely} of {sum(len(one.answers) for one in alone)} where one request ran at a"
                " time; what runs in one batch rounds differently in another)"
            )
        lines.append(line + ".")
    return lines
