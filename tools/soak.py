"""`soak.py`: the long tests at full counts; writes docs/soak.md.

Builds nothing: run it on a release build. `soak.py NAME...` runs only the named parts, `--list`
names them. Every part is one test program, or one pytest run, with SLUICE_SOAK=1. What was run,
when, how long it took and what it said goes into docs/soak.md, failures included. The line of a
part that is not run this time stays as it is; a part that never ran says so.
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
    facts: str
    program: str = ""  # of the build, with the tests of it that are meant
    tests: str = ""
    python: tuple[str, ...] = ()  # what pytest is given

    def command(self, build: Path) -> list[str]:
        if self.program:
            return [str(build / self.program), f"--gtest_filter={self.tests}"]
        pytest = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider"]
        return [*pytest, f"--build-dir={build}", *self.python]


COUNTED = r"^\d[\d,]* |^\w+: \d+ |^largest gap"

PARTS = [
    Part(
        "kills",
        "SIGKILL of daemon, producers and consumers at random times, every byte checked",
        r"^\d+ kills$|^\d+ puts, .*$",
        "tests/crash/crash_test",
        "RandomKills.*",
    ),
    Part(
        "torn-reads",
        "one writer, three readers, an arena of a few extents, nothing verified by checksum",
        r"^\d+ reads, .*$",
        "tests/crash/crash_test",
        "TornReads.NoneIsFoundUnderALease",
    ),
    Part(
        "planted-fault",
        "the same hunt with a reader that skips its lease: must find torn reads",
        r"^\d+ reads, .*$",
        "tests/crash/crash_test",
        "TornReads.AreFoundWhenAReaderSkipsItsLease",
    ),
    Part(
        "kill-points",
        "the daemon dies at every named kill point",
        r"^\d+ deaths at .*$",
        "tests/crash/crash_kill_point_test",
        "KillPoints.*",
    ),
    Part(
        "model",
        "3,000 random lists of 400 operations against the naive model",
        r"^SLUICE_TEST_SEED=\d+$",
        "src/store/store_model_test",
        "ObjectStore.*",
    ),
    Part(
        "proxy-gaps",
        "requests with idle gaps around the engine's keep-alive: none fails, none is sent twice",
        COUNTED,
        python=("tests/proxy/test_kept_connections.py",),
    ),
    Part(
        "proxy-streams",
        "2,000 streams for ten minutes: no event lost, doubled, merged or out of order",
        COUNTED,
        python=("tests/proxy/test_streams.py",),
    ),
    Part(
        "proxy",
        "the other tests of the proxy: crowds of slow and of vanishing clients, bad HTTP, retries",
        COUNTED,
        python=(
            "tests/proxy",
            "--ignore=tests/proxy/test_kept_connections.py",
            "--ignore=tests/proxy/test_streams.py",
        ),
    ),
    Part(
        "engines-aborts",
        "real engines: clients leave in each phase, and blocks and arena are as before",
        COUNTED,
        python=("tests/e2e/test_aborts.py",),
    ),
    Part(
        "engines-stall",
        "real engines: a prefill stopped for 5 s in a hand-off, and what other streams see of it",
        COUNTED,
        python=("tests/e2e/test_stalled_prefill.py",),
    ),
    Part(
        "engines",
        "real engines: everything else, with each process killed several times",
        COUNTED,
        python=(
            "tests/e2e",
            "--ignore=tests/e2e/test_aborts.py",
            "--ignore=tests/e2e/test_stalled_prefill.py",
        ),
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
    paths = f"{build / 'python'}:{ROOT / 'demo' / 'support'}"
    environment = {
        **os.environ,
        "SLUICE_SOAK": "1",
        "PYTHONPATH": paths,
        "PYTHONUNBUFFERED": "1",
    }
    with subprocess.Popen(
        part.command(build),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            text = line.rstrip()
            print(f"   {time.monotonic() - begin:7.0f} s  {text}", flush=True)
            text = text.lstrip(".")  # pytest's progress stands before what a test says
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


def row(outcome: Outcome) -> str:
    part = outcome.part
    result = "passed" if outcome.passed else "**failed**"
    facts = "; ".join(outcome.facts)
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return f"| {part.name} | {part.what} | {result} | {day} | {outcome.seconds:.0f} | {facts} |"


def rows_of(text: str) -> dict[str, str]:
    """The lines of an earlier page, by part."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines}


def page(outcomes: list[Outcome], earlier: dict[str, str]) -> str:
    """The text of docs/soak.md."""
    known = {**earlier, **{outcome.part.name: row(outcome) for outcome in outcomes}}
    lines = [
        "# The long tests, last run",
        "",
        "Written by `python3 tools/soak.py` on a release build; `make soak` builds first. Parts",
        "can be run one by one.",
        "",
        f"Machine: {machine()}.",
        "",
        "| part | what | result | day (UTC) | seconds | counts |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for part in PARTS:
        lines.append(known.get(part.name, f"| {part.name} | {part.what} | not run | | | |"))
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="PART", help="only these parts")
    parser.add_argument("--list", action="store_true", help="name the parts and stop")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "soak.md")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{part.name:15} {part.what}" for part in PARTS))
        return 0
    unknown = set(options.names) - {part.name for part in PARTS}
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; --list names them")
    earlier = rows_of(options.out.read_text()) if options.out.exists() else {}
    outcomes: list[Outcome] = []
    for part in PARTS:
        if not options.names or part.name in options.names:
            outcomes.append(run(part, options.build.resolve()))
            options.out.write_text(page(outcomes, earlier))
    print(f"written: {options.out}")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
