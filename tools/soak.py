"""`soak.py`: the crash tests at full counts, kills 5,000 and torn reads 1e8; writes docs/soak.md.

Builds nothing: run it on a release build. `soak.py NAME...` runs only the named parts, `--list`
names them. Every part is one test program with SLUICE_SOAK=1. What was run, how long it took and
what it said goes into docs/soak.md, failures included; parts that were not run say so.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from sources import ROOT


@dataclass(frozen=True)
class Part:
    """One test at full count. Lines of its output that match `facts` are kept."""

    name: str
    what: str
    program: str
    tests: str
    facts: str


PARTS = [
    Part(
        "kills",
        "SIGKILL of daemon, producers and consumers at random times, every byte checked",
        "tests/crash/crash_test",
        "RandomKills.*",
        r"^\d+ kills$|^\d+ puts, .*$",
    ),
    Part(
        "torn-reads",
        "one writer, three readers, an arena of a few extents, nothing verified by checksum",
        "tests/crash/crash_test",
        "TornReads.NoneIsFoundUnderALease",
        r"^\d+ reads, .*$",
    ),
    Part(
        "planted-fault",
        "the same hunt with a reader that skips its lease: must find torn reads",
        "tests/crash/crash_test",
        "TornReads.AreFoundWhenAReaderSkipsItsLease",
        r"^\d+ reads, .*$",
    ),
    Part(
        "kill-points",
        "the daemon dies at every named kill point",
        "tests/crash/crash_kill_point_test",
        "KillPoints.*",
        r"^\d+ deaths at .*$",
    ),
    Part(
        "model",
        "3,000 random lists of 400 operations against the naive model",
        "src/store/store_model_test",
        "ObjectStore.*",
        r"^SLUICE_TEST_SEED=\d+$",
    ),
]


@dataclass
class Outcome:
    part: Part
    passed: bool
    seconds: float
    facts: list[str]


def run(part: Part, build: Path) -> Outcome:
    """Runs one part and passes its progress on line by line."""
    print(f"== {part.name}: {part.what}", flush=True)
    begin = time.monotonic()
    facts: list[str] = []
    command = [str(build / part.program), f"--gtest_filter={part.tests}"]
    environment = {**os.environ, "SLUICE_SOAK": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            text = line.rstrip()
            print(f"   {time.monotonic() - begin:7.0f} s  {text}", flush=True)
            if re.search(part.facts, text):
                facts.append(text)
    passed = process.returncode == 0
    return Outcome(part, passed, time.monotonic() - begin, facts)


def machine() -> str:
    """Cores, processor and kernel, as the system names them."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} cores of {model}, {platform.system()} {platform.release()}"


def page(outcomes: list[Outcome]) -> str:
    """The text of docs/soak.md."""
    by_name = {outcome.part.name: outcome for outcome in outcomes}
    lines = [
        "# The long tests, last run",
        "",
        "Written by `python3 tools/soak.py` on a release build; `make soak` runs the same tests",
        "with all others.",
        "",
        f"Machine: {machine()}.",
        "",
        "| part | what | result | seconds | counts |",
        "| --- | --- | --- | --- | --- |",
    ]
    for part in PARTS:
        outcome = by_name.get(part.name)
        if outcome is None:
            lines.append(f"| {part.name} | {part.what} | not run | | |")
            continue
        result = "passed" if outcome.passed else "**failed**"
        counts = "; ".join(outcome.facts)
        lines.append(f"| {part.name} | {part.what} | {result} | {outcome.seconds:.0f} | {counts} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="PART", help="only these parts")
    parser.add_argument("--list", action="store_true", help="name the parts and stop")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "soak.md")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{part.name:14} {part.what}" for part in PARTS))
        return 0
    unknown = set(options.names) - {part.name for part in PARTS}
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; --list names them")
    outcomes: list[Outcome] = []
    for part in PARTS:
        if not options.names or part.name in options.names:
            outcomes.append(run(part, options.build))
            options.out.write_text(page(outcomes))
    print(f"written: {options.out}")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
