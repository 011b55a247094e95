"""The serving report says what was measured, and nothing else."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import images
import report_cells
import report_chart
import report_page
import serving_report
from openai_client import Json, Streamed
from report_arms import Arm, Moved
from report_cells import Cell, Measured, Requests, Size, Spread

ARMS = [("colocated", "one"), ("disk", "two"), ("sluice", "three")]


def measured(arm: str, cell: Cell, first_s: float, answer: str = "abc") -> Measured:
    """Two requests, a second together, whose later tokens come 10 ms apart."""
    tokens = tuple((letter, -1.0) for letter in answer)
    gaps_s = (0.01,) * (len(tokens) - 1)
    one = Streamed(first_s, first_s + sum(gaps_s), first_s, gaps_s, tokens)
    return Measured(arm, cell, seconds=1.0, cpu_s=2.0, answers=[one, one])


def test_cells_cover_every_combination_once() -> None:
    sizes: tuple[Size, ...] = ("small", "large")
    found = report_cells.cells((1, 8, 32), (0, 50, 100), sizes)
    assert len(found) == len(set(found)) == 18


@pytest.mark.parametrize(("percent", "repeated"), [(0, 0), (50, 4), (100, 8)])
def test_as_many_requests_repeat_an_image_as_the_cell_says(percent: int, repeated: int) -> None:
    requests = Requests()
    known = {json.dumps(body["messages"][0]["content"][1]) for body in requests.known("small")}
    shown = [
        json.dumps(body["messages"][0]["content"][1])
        for body in requests.of(Cell("small", percent, 1), 8)
    ]
    assert sum(picture in known for picture in shown) == repeated
    new = [picture for picture in shown if picture not in known]
    assert len(new) == len(set(new))


def test_every_arm_gets_the_same_requests() -> None:
    cell = Cell("small", 50, 8)
    assert Requests().of(cell, 4) == Requests().of(cell, 4)
    assert images.image(1, 64) != images.image(2, 64)


def test_a_spread_of_few_samples_has_the_largest_as_its_p99() -> None:
    spread = Spread.of([0.004, 0.001, 0.002, 0.009])
    assert (spread.mean, spread.median, spread.p99) == pytest.approx((4.0, 3.0, 9.0))
    assert Spread.of([index / 1000 for index in range(1, 201)]).p99 == pytest.approx(198.0)


def test_where_it_does_not_pay_is_said() -> None:
    few, many = Cell("large", 0, 1), Cell("large", 100, 32)
    found = [
        *(measured("colocated", cell, 0.2) for cell in (few, many)),
        measured("sluice", few, 0.4),
        measured("sluice", many, 0.1),
    ]
    said = "\n".join(report_page.verdict(found))
    assert "better in 1 (at most 2.00 x: large images, 100 % repeated, 32 at once)" in said
    assert "worse in 1 (at most 2.00 x: large images, 0 % repeated, 1 at once)" in said
    assert "it never pays with 1 at once, 0 % repeated" in said
    assert "Against vLLM's disk connector: not measured." in said
    worse = [measured("colocated", few, 0.2), measured("sluice", few, 0.4)]
    assert "first token (mean TTFT): it does not pay" in "\n".join(report_page.verdict(worse))


def test_an_answer_that_differs_is_counted(tmp_path: Path) -> None:
    cell = Cell("small", 0, 1)
    report = serving_report.Report(tmp_path)
    report.arms = ARMS
    report.add(measured("sluice", cell, 0.1, "abd"))
    report.add(measured("colocated", cell, 0.1, "abc"))
    report.add(measured("disk", cell, 0.1, "abc"))
    report.write()
    entries = json.loads((tmp_path / "report.json").read_text())["cells"]
    assert {one["arm"]: one["equal"] for one in entries} == {
        "colocated": None,
        "disk": 2,
        "sluice": 0,
    }
    assert (
        "Answers of sluice that equal those of the first arm: 0 of 2"
        in (tmp_path / "report.txt").read_text()
    )


def test_what_was_measured_before_an_arm_failed_is_kept(tmp_path: Path) -> None:
    report = serving_report.Report(tmp_path)
    report.arms = ARMS
    cells = [Cell("small", 0, at_once) for at_once in (1, 8, 32)]
    report.add(measured("disk", cells[0], 0.1))
    for cell in cells[1:]:
        assert not report.given_up("disk")
        report.add(Measured("disk", cell, failure="no answer"))
    assert report.given_up("disk")
    report.write()
    raw = json.loads((tmp_path / "report.json").read_text())
    assert [one.get("failure") for one in raw["cells"]] == [None, "no answer", "no answer"]
    assert raw["cells"][0]["ttft_ms"]["mean"] == pytest.approx(100.0)
    assert len(raw["problems"]) == 2


def test_where_the_time_went_is_the_mean_over_the_answers() -> None:
    one = measured("sluice", Cell("small", 0, 1), 0.1)
    one.answers = [
        replace(answer, stages_ms={"encode": encode, "prefill": 5.0})
        for answer, encode in zip(one.answers, (10.0, 30.0), strict=True)
    ]
    assert one.stages_ms == {"encode": 20.0, "prefill": 5.0}
    assert "       0       20        0        5        0  small images" in report_page.text(
        ARMS, [one], []
    )


def test_the_picture_has_a_bar_for_each_arm_cell_and_quantity() -> None:
    cells = [Cell("small", 0, 1), Cell("large", 50, 8)]
    found = [measured(arm, cell, 0.1) for arm, _ in ARMS for cell in cells]
    tree = ElementTree.fromstring(report_chart.svg(found))
    bars = [
        one for one in tree.iter("{http://www.w3.org/2000/svg}rect") if one.get("height") == "8"
    ]
    assert len(bars) == len(found) * len(report_chart.QUANTITIES)


class Up:
    """What drive() needs of a deployment."""

    def cpu_s(self) -> float:
        return 1.0


def test_a_cell_in_which_a_request_fails_is_a_failure_and_no_figure() -> None:
    asked: list[Json] = []

    def ask(body: Json) -> Streamed:
        asked.append(body)
        if len(asked) == 3:
            raise RuntimeError("port 1: HTTP 500")
        return Streamed(0.1, 0.2, 0.1, (0.1,), (("a", -1.0), ("b", -1.0)))

    arm = Arm("disk", 2, "two", Up(), ask, Moved)  # type: ignore[arg-type]
    cell, requests = Cell("small", 0, 1), Requests()
    good = serving_report.drive(arm, cell, [], requests.of(cell, 2))
    assert (good.failure, len(good.answers)) == ("", 2)
    bad = serving_report.drive(arm, cell, [], requests.of(cell, 2))
    assert bad.failure == "port 1: HTTP 500"
    assert "failure" in report_page.entry(bad)
