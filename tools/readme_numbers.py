"""Puts the figures of the last `make bench` into README.md, between its two `numbers` comments."""

import json
import sys
from collections.abc import Mapping

from sources import ROOT

sys.path.insert(0, str(ROOT / "bench"))
from bars import BARS

BEGIN, END = "<!-- numbers -->", "<!-- end of numbers -->"


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


def replaced(page: str, table: str) -> str:
    """The page with the table between the comments. Raises ValueError when they are not there."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> None:
    figures: dict[str, float] = {}
    for name in ("store.json", "serving.json"):
        figures |= json.loads((ROOT / "build" / "bench" / name).read_text())
    readme = ROOT / "README.md"
    readme.write_text(replaced(readme.read_text(), markdown(figures)))


if __name__ == "__main__":
    main()
