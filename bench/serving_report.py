"""The serving report: three arms, each started once and driven through every cell, in turns.

What is known so far is in the files after every cell; an arm that does not come up, or fails in two
cells running, is left out from there on, and the others go on.
"""

import contextlib
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import report_arms
import report_chart
import report_page
from openai_client import Json
from plan import Plan
from report_arms import Arm, Moved
from report_cells import WARM_UP_FROM, Cell, Measured, Requests, cells

FAILURES_MAX = 2  # running, of one arm
FIRST_REQUESTS = 3  # that warm an arm up
SETTLE_S = 0.1
SETTLE_LOOKS_MAX = 30


def measure(build: Path, plan: Plan, folder: Path, out: Path) -> None:
    """Writes report.json, report.txt and report.svg to `out`, and prints the text. Raises
    RuntimeError at the end when something could not be measured."""
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    report = Report(out)
    engines = out / "engines"  # with their logs, for whoever wants to know what went wrong
    shutil.rmtree(engines, ignore_errors=True)
    with _arms(build, plan.report_arms, engines, folder / "features", report) as arms:
        requests = Requests()
        todo = cells(plan.report_concurrency, plan.report_repeats, plan.report_sizes)
        for place, cell in enumerate(todo):
            if time.monotonic() - began > plan.report_s_max:
                report.problems.append(f"no time was left for {len(todo) - place} cells")
                break
            count = max(plan.report_requests, cell.concurrent)
            known = requests.known(cell.size) if cell.repeated_percent else []
            bodies = requests.of(cell, count)
            for turn in range(len(arms)):
                one = arms[(place + turn) % len(arms)]
                report.add(drive(one, cell, known, bodies))
            arms = [one for one in arms if not report.given_up(one.name)]
            report.write()
            _progress(f"{place + 1} of {len(todo)}: {cell.title}", began)
    report.write()
    print(report_page.text(report.arms, report.measured, report.problems), flush=True)
    if report.problems:
        raise RuntimeError("\n".join(report.problems))


class Report:
    """What has been measured so far, and its files."""

    def __init__(self, out: Path) -> None:
        self.arms: list[tuple[str, str]] = []  # name, description
        self.measured: list[Measured] = []
        self.problems: list[str] = []
        self._out = out

    def add(self, measured: Measured) -> None:
        self.measured.append(measured)
        if measured.failure:
            self.problems.append(f"{measured.arm}: {measured.cell.title}: {measured.failure}")

    def given_up(self, arm: str) -> bool:
        last = [one for one in self.measured if one.arm == arm][-FAILURES_MAX:]
        return len(last) == FAILURES_MAX and all(one.failure for one in last)

    def write(self) -> None:
        self._compare()
        entries = [report_page.entry(one) for one in self.measured]
        raw = {
            "arms": dict(self.arms),
            "cells": entries,
            "problems": self.problems,
            "samples": [
                {
                    "arm": one.arm,
                    **asdict(one.cell),
                    "first_s": [answer.first_s for answer in one.answers],
                    "last_s": [answer.last_s for answer in one.answers],
                }
                for one in self.measured
            ],
        }
        (self._out / "report.json").write_text(json.dumps(raw, indent=1) + "\n")
        page = report_page.text(self.arms, self.measured, self.problems)
        (self._out / "report.txt").write_text(page + "\n")
        (self._out / "report.svg").write_text(report_chart.svg(self.measured))

    def _compare(self) -> None:
        """Every arm's answers with those of the first arm that has that cell."""
        first: dict[Cell, Measured] = {}
        order = {name: place for place, (name, _) in enumerate(self.arms)}
        for one in sorted(self.measured, key=lambda one: order[one.arm]):
            if one.failure:
                continue
            if one.cell in first:
                one.compare(first[one.cell])
            else:
                first[one.cell] = one


@contextlib.contextmanager
def _arms(
    build: Path, names: Sequence[str], folder: Path, disk: Path, report: Report
) -> Iterator[list[Arm]]:
    """Those arms that come up, warm. They stay up together, so that they can take turns."""
    disk.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        arms = []
        for plan in report_arms.plans(disk):
            if plan.name not in names:
                continue
            began = time.monotonic()
            report.arms.append((plan.name, plan.description))
            try:
                up = stack.enter_context(report_arms.deployment_of(plan, build, folder))
                one = report_arms.arm(plan, up, disk)
                for body in Requests(WARM_UP_FROM).of(Cell("small", 0, 1), FIRST_REQUESTS):
                    one.ask(body)
            except (RuntimeError, OSError) as error:
                report.problems.append(f"{plan.name}: {error}")
                continue
            _progress(f"{plan.name} is up", began)
            arms.append(one)
        yield arms


def drive(arm: Arm, cell: Cell, known: Sequence[Json], bodies: Sequence[Json]) -> Measured:
    done = Measured(arm.name, cell)
    try:
        for body in known:
            arm.ask(body)
        moved, cpu_s, began = _settled(arm), arm.up.cpu_s(), time.monotonic()
        with ThreadPoolExecutor(cell.concurrent) as pool:
            done.answers = list(pool.map(arm.ask, bodies))
        done.seconds = time.monotonic() - began
        done.cpu_s = arm.up.cpu_s() - cpu_s
        done.moved = _settled(arm).since(moved)
    except (RuntimeError, OSError) as error:
        done.failure = " ".join(str(error).split())[:300]
    return done


def _settled(arm: Arm) -> Moved:
    """What was moved, once it is the same twice: engines post their counts a little later."""
    last = arm.moved()
    for _ in range(SETTLE_LOOKS_MAX):
        time.sleep(SETTLE_S)
        now = arm.moved()
        if now == last:
            break
        last = now
    return last


def _progress(what: str, began: float) -> None:
    print(f"   report: {what} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
