"""`make model`: checks docs/protocols/lease_protocol.pml exhaustively with spin, faults included.

`run_model.py` or `--full` checks every case (minutes), `--small` smaller instances of the same
models and the faults that are found quickly (under a minute on two idle cores, for `make test`),
`--list` names the cases. A rule that stands must hold in all states; a planted fault must end in
the kind of violation that is expected of it. Prints one line a case and closes with `N passed,
N failed`; exits 1 on any surprise, an incomplete search included.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "docs" / "protocols" / "lease_protocol.pml"

HOLDS = "holds"
ASSERTION = "assertion"  # a state that a rule forbids
CYCLE = "cycle"  # somebody never goes on
MEMORY_MB = 5000
DEPTH = 1_000_000
DEPTH_HEAVY = 20_000_000


@dataclass(frozen=True)
class Case:
    """One model with its switches, and what must come out."""

    model: int
    switches: str = ""
    expected: str = HOLDS
    small: bool = True  # part of --small
    full: bool = True  # part of --full
    claim: str = ""  # an LTL formula of the model
    loops: bool = False  # search for non-progress cycles
    heavy: bool = False  # many states: worth an optimised verifier

    @property
    def name(self) -> str:
        return f"{self.switches} {self.claim}".strip() or "-"

    @property
    def liveness(self) -> bool:
        return bool(self.claim) or self.loops


def rule(
    model: int, switches: str = "", *, small: bool = True, full: bool = True, heavy: bool = False
) -> Case:
    return Case(model, switches, HOLDS, small, full, heavy=heavy)


def fault(model: int, switches: str, *, small: bool = True, heavy: bool = False) -> Case:
    return Case(model, switches, ASSERTION, small, heavy=heavy)


def progress(switches: str, claim: str, expected: str = HOLDS) -> Case:
    return Case(1, f"PROGRESS {ONE} GENMOD=1 {switches}".strip(), expected, claim=claim)


def loops(switches: str, expected: str) -> Case:
    return Case(4, f"NT=3 LOOPS {switches}".strip(), expected, loops=True)


# The smallest instances of model 1 in which a fault shows: one reader, slot and key; with two
# producers or two extents where it needs them.
ONE = "NR=1 NS=1 NK=1"
TWO_PRODUCERS = f"{ONE} NP=2"
TWO_EXTENTS = f"{ONE} NE=2"

CASES = [
    rule(1, "NR=1 NS=1"),
    rule(1, "NR=1", small=False, heavy=True),
    rule(1, TWO_PRODUCERS, small=False, heavy=True),
    rule(1, small=False, heavy=True),
    fault(1, f"NO_RECHECK {ONE}"),
    fault(1, f"CHECK_THEN_RETIRE {ONE}"),
    fault(1, "EARLY_FIELDS NR=1 NS=1"),
    fault(1, f"SLOT_REUSE {TWO_EXTENTS}", heavy=True),
    fault(1, f"SLOT_REUSE SECOND_CHECK {TWO_EXTENTS}", small=False, heavy=True),
    fault(1, f"TIMER_FREES {TWO_PRODUCERS}"),
    fault(1, f"TIMER_FREES VERIFY {TWO_PRODUCERS}"),
    fault(1, f"TIMER_FREES PUB_BY_GEN {TWO_PRODUCERS}"),
    fault(1, f"RESTART_DROPS {TWO_PRODUCERS}"),
    fault(1, f"RESTART_FORGETS {ONE}"),
    fault(1, f"GRANT_FIRST {TWO_PRODUCERS}"),
    fault(1, f"EOF_IS_DEATH {ONE}"),
    fault(1, f"PAGE_FIRST {ONE}"),
    progress("", "reader_goes_on"),
    progress("", "producer_goes_on"),
    progress("", "daemon_goes_on"),
    progress("NO_DEADLINE", "producer_goes_on", CYCLE),
    rule(2),
    *(fault(2, name) for name in ("NO_FENCE_R", "NO_FENCE_D", "NO_ACQ_R", "NO_REL_R", "NO_REL_P")),
    rule(3),
    rule(3, "ASYMMETRIC"),
    fault(3, "NO_FENCE_R"),
    fault(3, "NO_FENCE_D"),
    rule(4, "NT=3"),
    rule(4, small=False, heavy=True),
    fault(4, "SWEEP_ANY NT=3"),
    fault(4, "RELOCATE NT=3"),
    fault(4, "STOP_AT_TOMB NT=3"),
    loops("", HOLDS),
    loops("UNBOUNDED", CYCLE),
    loops("RETRY", CYCLE),
    loops("ODD_SPIN", CYCLE),
    rule(5),
    *(fault(5, name) for name in ("LEASE_BY_PLACE", "NO_MOVED", "MOVED_FIRST")),
    rule(6),
    rule(6, "TRUST_HOLDER PASSES=2"),
    fault(6, "TRUST_HOLDER"),
    rule(7),
    fault(7, "FREE_DIRECT"),
    fault(7, "NO_RESET"),
    rule(8, "NE=1"),
    rule(8, "NS=1", small=False, heavy=True),
    rule(8, small=False, heavy=True),
    *(fault(8, name) for name in ("NO_RESOLVE", "FREE_FIRST", "SERVE_TWICE", "GRANT_EARLY")),
    fault(8, "OWN_FREE NS=1"),
    rule(9),
    *(fault(9, name) for name in ("LATE_PAGE", "ONE_LIST", "EARLY_SCAN", "PASSES=1")),
]


@dataclass(frozen=True)
class Outcome:
    result: str  # HOLDS, ASSERTION, CYCLE, or what went wrong
    states: int
    seconds: float


class Broken(Exception):
    """A tool refused its input, or the search did not end."""


def call(command: list[str], folder: Path, limit_s: float) -> str:
    """Output of a command that must succeed within its time."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            check=False,
            timeout=limit_s,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.TimeoutExpired as error:
        raise Broken(f"{Path(command[0]).name} took more than {limit_s:.0f} s") from error
    if done.returncode != 0:
        raise Broken(f"{Path(command[0]).name}: {done.stdout.strip()[-300:] or done.returncode}")
    return done.stdout


def compile_flags(case: Case) -> list[str]:
    flags = ["-DCOLLAPSE", "-DNOREDUCE", f"-DMEMLIM={MEMORY_MB}"]
    if case.loops:
        flags.append("-DNP")
    elif not case.claim:
        flags.append("-DSAFETY")
    # For a small search, compiling well would take longer than it saves.
    flags.append("-O2" if case.heavy else "-O0")
    return flags


def search_flags(case: Case) -> list[str]:
    if case.claim:
        return ["-a", "-f", "-N", case.claim]
    return ["-l", "-f"] if case.loops else []


def read_report(report: str) -> tuple[str, int]:
    """What pan found, and how many states it stored."""
    errors = re.search(r"errors: (\d+)", report)
    states = re.search(r"^\s*(\d+) states, stored", report, re.MULTILINE)
    if not errors or not states:
        raise Broken(f"no report: {report.strip()[-300:]}")
    count = int(states.group(1))
    if errors.group(1) != "0":
        for text, result in (
            ("assertion violated", ASSERTION),
            ("acceptance cycle", CYCLE),
            ("non-progress cycle", CYCLE),
        ):
            if text in report:
                return result, count
        first = next((line for line in report.splitlines() if line.startswith("pan:1:")), "?")
        return first.removeprefix("pan:1:").strip(), count
    if "Search not completed" in report or "max search depth too small" in report:
        raise Broken("the search was not complete")
    return HOLDS, count


def check(case: Case, scratch: Path, limit_s: float) -> Outcome:
    """Generates, compiles and runs the verifier of one case in a folder of its own."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        switches = [f"-D{s}" for s in (f"MODEL={case.model}", *case.switches.split())]
        try:
            call(["spin", *switches, "-a", str(MODEL)], folder, 60)
            call(["gcc", "-w", *compile_flags(case), "-o", "pan", "pan.c"], folder, 120)
            depth = DEPTH_HEAVY if case.heavy else DEPTH
            flags = [*search_flags(case), f"-m{depth}", "-w24" if case.heavy else "-w20"]
            result, states = read_report(call([str(folder / "pan"), *flags], folder, limit_s))
        except Broken as problem:
            result, states = str(problem), 0
    return Outcome(result, states, time.monotonic() - begin)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--small", action="store_true", help="smaller instances, under a minute")
    size.add_argument("--full", action="store_true", help="every case (the default)")
    parser.add_argument("--model", type=int, help="only this model")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4))
    options = parser.parse_args()

    cases = [
        case
        for case in CASES
        if (case.small if options.small else case.full)
        and (options.model is None or case.model == options.model)
    ]
    if options.list:
        for case in cases:
            print(f"{case.model}  {case.name}  {case.expected}")
        return 0
    missing = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    if missing or not cases:
        print(f"not found: {', '.join(missing)}" if missing else "no such case", file=sys.stderr)
        return 2

    scratch = ROOT / "build" / "model"
    scratch.mkdir(parents=True, exist_ok=True)
    limit_s = 120.0 if options.small else 1800.0
    failed = 0
    print(f"model  {'switches':<58} {'expected':<10} {'result':<10} {'states':>11} {'seconds':>8}")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        outcomes = pool.map(lambda case: check(case, scratch, limit_s), cases)
        for case, outcome in zip(cases, outcomes, strict=True):
            surprise = outcome.result != case.expected
            failed += surprise
            print(
                f"{case.model:>5}  {case.name:<58} {case.expected:<10} {outcome.result:<10} "
                f"{outcome.states:>11,} {outcome.seconds:>8.1f}{'  SURPRISE' if surprise else ''}",
                flush=True,
            )
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
