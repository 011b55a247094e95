"""Puts the last `make bench` into the documents: the figures into README.md; the table, the serving
report and its picture into docs/. Each stands between two comments of the page.
"""

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sources import ROOT

sys.path.insert(0, str(ROOT / "bench"))
from bars import BARS, table

Marks = tuple[str, str]
BEGIN, END = "<!-- numbers -->", "<!-- end of numbers -->"
TABLE: Marks = ("<!-- table -->", "<!-- end of table -->")
REPORT: Marks = ("<!-- report -->", "<!-- end of report -->")
BENCH = ROOT / "build" / "bench"


def markdown(figures: Mapping[str, float]) -> str:
    """A table with a row for each number that has a bar; what was not measured says so."""
    lines = ["| number | meaning | here | bar |", "| --- | --- | --- | --- |"]
    for name, bar in BARS.items():
        figure = figures.get(name)
        here = "not measured" if figure is None else f"{figure:.3g} {bar.unit.strip('1x')}".strip()
        if figure is not None and not bar.met(figure):
            here = f"**{here}**"
        sense = "≥" if bar.sense == "at least" else "≤"
        lines.append(f"| `{name}` | {bar.meaning} | {here} | {sense} {bar.value:g} |")
    return "\n".join(lines)


def replaced(page: str, text: str, marks: Marks = (BEGIN, END)) -> str:
    """The page with the text between the two comments. Raises ValueError without them."""
    before, begin, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise ValueError(f"the page has no {marks[0]} ... {marks[1]}")
    return f"{before}{begin}\n{text}\n{end}{after}"


def fenced(text: str) -> str:
    return f"```\n{text.rstrip()}\n```"


def put(page: Path, text: str, marks: Marks) -> None:
    page.write_text(replaced(page.read_text(), text, marks))


def read(name: str) -> dict[str, Any]:
    return dict(json.loads((BENCH / name).read_text()))


def main() -> None:
    figures: dict[str, float] = read("store.json") | read("serving.json")
    notes = read("store-raw.json")["notes"] | read("serving-raw.json")["notes"]
    put(ROOT / "README.md", markdown(figures), (BEGIN, END))
    docs = ROOT / "docs"
    put(docs / "benchmarks.md", fenced(table(figures, notes)), TABLE)
    put(docs / "benchmarks.md", fenced((BENCH / "report.txt").read_text()), REPORT)
    shutil.copyfile(BENCH / "report.svg", docs / "serving-report.svg")


if __name__ == "__main__":
    main()
