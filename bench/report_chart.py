"""The serving report as a picture: a bar for each arm in each cell, for time to first token and for
requests a second. SVG, written by hand: it needs nothing but a browser.
"""

from collections.abc import Callable, Sequence
from html import escape

from report_cells import Cell, Measured

COLOURS = {"colocated": "#7f8c8d", "disk": "#d98324", "sluice": "#1f77b4"}
BAR, GAP, TOP, LEFT, PANEL, SPACE = 9, 8, 64, 170, 360, 80
Quantity = tuple[str, Callable[[Measured], float], str]
QUANTITIES: tuple[Quantity, ...] = (
    ("mean time to first token, ms (shorter is better)", lambda one: one.ttft.mean, "{:.0f}"),
    ("requests a second (longer is better)", lambda one: one.requests_per_s, "{:.2f}"),
)


def svg(measured: Sequence[Measured]) -> str:
    good = {(one.cell, one.arm): one for one in measured if not one.failure}
    cells = list(dict.fromkeys(cell for cell, _ in good))
    step = BAR * len(COLOURS) + GAP
    height = TOP + step * len(cells) + 20
    width = LEFT + len(QUANTITIES) * (PANEL + SPACE)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="10">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for place, (arm, colour) in enumerate(COLOURS.items()):
        parts.append(
            f'<rect x="{LEFT + 110 * place}" y="10" width="12" height="12" fill="{colour}"/>'
        )
        parts.append(_text(LEFT + 110 * place + 18, 20, arm))
    for place, cell in enumerate(cells):
        parts.append(_text(LEFT - 8, TOP + step * place + 17, _label(cell), anchor="end"))
    for place, quantity in enumerate(QUANTITIES):
        parts += _panel(LEFT + place * (PANEL + SPACE), quantity, cells, good, step)
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    x: int,
    quantity: Quantity,
    cells: Sequence[Cell],
    good: dict[tuple[Cell, str], Measured],
    step: int,
) -> list[str]:
    title, value_of, shape = quantity
    most = max((value_of(one) for one in good.values()), default=1.0)
    parts = [_text(x, TOP - 14, title)]
    for place, cell in enumerate(cells):
        for row, (arm, colour) in enumerate(COLOURS.items()):
            if (cell, arm) not in good:
                continue
            value = value_of(good[cell, arm])
            y = TOP + step * place + BAR * row
            long = max(1.0, PANEL * value / most)
            parts.append(
                f'<rect x="{x}" y="{y}" width="{long:.1f}" height="{BAR - 1}" fill="{colour}"/>'
            )
            parts.append(_text(round(x + long) + 4, y + BAR - 1, shape.format(value), size=8))
    return parts


def _label(cell: Cell) -> str:
    return f"{cell.size}, {cell.repeated_percent} % repeated, {cell.concurrent} at once"


def _text(x: int, y: int, words: str, anchor: str = "start", size: int = 10) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'
