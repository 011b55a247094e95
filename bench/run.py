#!/usr/bin/env python
"""Measures the project's numbers against a real daemon and prints them, each beside its bar.

    python bench/run.py [--quick] [--only GROUP ...] [--build-dir DIR] [--out DIR]
                        [--report-requests N] [--report-arms ARM ...]

Writes `store.json` and `serving.json` (one flat object each), `store-raw.json` and
`serving-raw.json` (every sample of both sides, and the machine), and the serving report:
`report.txt`, `report.json` and `report.svg`. Exits with 0 also when a bar is
missed, and with 1 when something could not be measured.
"""

import argparse
import concurrent.futures
import json
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import bars
import first_token
import machine
import packages
import peers
import serving
import serving_report
from native import Native
from plan import FULL, QUICK
from results import Results

ROOT = Path(__file__).resolve().parent.parent
Groups = dict[str, Callable[[], None]]


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    plan = QUICK if arguments.quick else FULL
    if arguments.report_requests:
        plan = replace(plan, report_requests=arguments.report_requests)
    if arguments.report_arms:
        plan = replace(plan, report_arms=tuple(arguments.report_arms))
    results = Results()
    before = machine.facts()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name:
        build = arguments.build_dir.resolve()
        native = Native(build, plan, results)

        def own(group: str) -> Path:
            """What a group writes is in nobody's way."""
            made = Path(name) / group
            made.mkdir()
            return made

        groups: Groups = {
            "idle": partial(native.idle, own("idle") / "attached.log"),
            "copies": native.copies,
            "gets": native.gets,
            "small_puts": native.small_puts,
            "lookups": native.lookups,
            "utilisation": native.utilisation,
            "peers": partial(peers.measure, build, plan, native, results, own("peers")),
            "python": partial(packages.measure_python, build, plan, results),
            "engine": partial(packages.measure_engine, build, plan, results),
            "serving": partial(serving.measure, build, plan, results, own("serving")),
            "handoffs": native.handoffs,
            "handoff_ttft": partial(
                first_token.measure_handoff, build, plan, results, own("handoff_ttft")
            ),
            "feature_ttft": partial(
                first_token.measure_features, build, plan, results, own("feature_ttft")
            ),
            "report": partial(serving_report.measure, build, plan, own("report"), arguments.out),
        }
        every = groups.keys() - ENGINE_GROUPS if arguments.quick else groups.keys()
        chosen = {name: groups[name] for name in groups if name in (arguments.only or every)}
        # One after the other, so that nothing disturbs a figure; a quick run has none to disturb.
        # A single group runs here as well, where a signal reaches it.
        failures = _measure(chosen, workers=4 if arguments.quick and len(chosen) > 1 else 1)
    _write(arguments.out, results, before, chosen)
    print(bars.table(results.figures, results.notes, judged=not arguments.quick))
    missed = [name for name, value in results.figures.items() if not bars.BARS[name].met(value)]
    if arguments.quick:
        print("\nA quick run: it shows that everything can be measured; the figures mean nothing.")
    elif missed:
        print(f"\n{len(missed)} bars missed: {', '.join(missed)}")
    for name, text in failures.items():
        print(f"\n{name} could not be measured:\n{text}", file=sys.stderr)
    return 1 if failures else 0


def _measure(groups: Groups, workers: int) -> dict[str, str]:
    """Runs the groups; a failing one does not keep the others from being measured."""
    failures: dict[str, str] = {}

    def one(name: str) -> None:
        start = time.monotonic()
        try:
            groups[name]()
        except Exception:
            failures[name] = traceback.format_exc()
        print(f"-- {name}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)

    if workers == 1:  # here, so that a signal reaches what has to be stopped
        for name in groups:
            one(name)
        return failures
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, sorted(groups, key=lambda name: name != "engine")))  # the longest first
    return failures


def _write(
    folder: Path, results: Results, before: dict[str, str | int | list[float]], chosen: Groups
) -> None:
    """The files of the groups that were chosen; the others stay as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "store": (bars.STORE, chosen.keys() - SERVING_GROUPS),
        "serving": (bars.SERVING, chosen.keys() & SERVING_GROUPS),
    }
    after = machine.facts()["load_average"]
    for file, (names, groups) in files.items():
        if not groups:
            continue
        flat = {name: results.figures[name] for name in names if name in results.figures}
        raw = {
            "machine": {**before, "load_average_at_the_end": after},
            "notes": {name: results.notes[name] for name in flat if name in results.notes},
            "samples": {name: results.samples[name] for name in flat},
        }
        (folder / f"{file}.json").write_text(json.dumps(flat, indent=1) + "\n")
        (folder / f"{file}-raw.json").write_text(json.dumps(raw) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small counts, to see that it works; what needs engines only when it is named",
    )
    parser.add_argument("--only", nargs="+", choices=GROUPS, help="measure these groups only")
    parser.add_argument(
        "--report-requests", type=int, metavar="N", help="in each cell of the serving report"
    )
    parser.add_argument(
        "--report-arms", nargs="+", choices=FULL.report_arms, help="only these of the report"
    )
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench")
    return parser.parse_args()


GROUPS = (
    *("idle", "copies", "gets", "small_puts", "lookups"),
    *("utilisation", "peers", "python", "engine", "serving"),
    *("handoffs", "handoff_ttft", "feature_ttft", "report"),
)
ENGINE_GROUPS = {
    "handoff_ttft",
    "feature_ttft",
    "report",
}  # start real engines: minutes at any count
SERVING_GROUPS = {"serving", "handoffs", "handoff_ttft", "feature_ttft"}

if __name__ == "__main__":
    sys.exit(main())
