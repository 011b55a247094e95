"""`make test`: every tier in turn, and one closing line `N passed, N failed` that sums them.

`test.py NAME...` runs only the named tiers; `test.py --list` names them. Logs: build/test/.
SLUICE_SOAK=1 in the environment makes long tests run at full counts, with ten times
the time. A tier that ends without a result, leaves a process behind or passes its time limit counts
as failed.
"""

import argparse
import os
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import processes
from sources import ROOT

OUT = ROOT / "build" / "test"
BUILD = ROOT / "build" / "release"
# The built package, and what lets torchvision load beside a CPU build of torch (demo/support).
PYTHON_PATH = f"{BUILD / 'python'}:{ROOT / 'demo' / 'support'}"
Command = list[str | Path]


@dataclass(frozen=True)
class Tier:
    """One kind of test: how to run it with its JUnit file at a given path, and how long it may
    take.
    """

    name: str
    what: str
    command: Callable[[Path], Command]
    limit_s: float
    folders: tuple[str, ...] = ()  # of Python tests
    junit: bool = True


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    names: list[str] = field(default_factory=list)  # of what failed

    def fail(self, name: str) -> None:
        self.failed += 1
        self.names.append(name)

    def add(self, other: "Count") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.names += other.names

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {self.skipped} skipped" if self.skipped else text


def ctest(junit: Path) -> Command:
    return [
        *("ctest", "--test-dir", BUILD, "--output-on-failure", "--no-tests=error"),
        *("-j", str(os.cpu_count() or 1), "--output-junit", junit),
    ]


def pytest(*folders: str) -> Callable[[Path], Command]:
    def command(junit: Path) -> Command:
        return [
            *(sys.executable, "-m", "pytest", "--durations=10", "-p", "no:cacheprovider"),
            f"--junitxml={junit}",
            *(ROOT / folder for folder in folders),
        ]

    return command


def model(junit: Path) -> Command:
    return [sys.executable, ROOT / "tools" / "run_model.py", "--small"]


def python(name: str, what: str, limit_s: float, *folders: str) -> Tier:
    return Tier(name, what, pytest(*folders), limit_s, folders)


TIERS = [
    Tier("cpp", "C++ unit, property, two-process and crash tests", ctest, 900),
    Tier("model", "the protocol's model, small cases", model, 300, junit=False),
    python("tools", "the checks, and the demo's own parts", 300, "tools", "demo/test_demo.py"),
    python("python", "the Python package", 300, "tests/python"),
    python("cli", "the programs: files, mistakes, sluice up, doctor", 600, "tests/cli"),
    python("vllm", "the connector against vLLM's scheduler and runners", 600, "tests/vllm"),
    python("proxy", "the proxy against scripted engines", 300, "tests/proxy"),
    python("interop", "objects exchanged with a Mooncake store", 300, "tests/interop"),
    python("bench", "the benchmarks, a small run of every number", 600, "tests/bench"),
    python(
        "demo",
        "planted faults, which the demo must notice",
        1200,
        "demo/test_plant.py",
        "demo/test_serving.py",
    ),
    python("e2e", "real engines", 1500, "tests/e2e"),
]


def count_junit(file: Path) -> Count:
    """Sums a JUnit file; raises OSError or ParseError when there is none that can be read."""
    count = Count()
    for case in ET.parse(file).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        if kinds & {"failure", "error"} or case.get("status") == "fail":
            count.fail(name)
        elif "skipped" in kinds or case.get("status") in {"notrun", "disabled"}:
            count.skipped += 1
        else:
            count.passed += 1
    return count


def run(tier: Tier, soak: bool) -> Count:
    """Runs one tier and prints its line; on failure also the end of its log."""
    print(f"== {tier.name}: {tier.what}", flush=True)
    junit, log = OUT / f"{tier.name}.xml", OUT / f"{tier.name}.log"
    junit.unlink(missing_ok=True)
    begin = time.monotonic()
    limit_s = tier.limit_s * (10 if soak else 1)
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, "PYTHONUNBUFFERED": "1"}
    done = processes.run(tier.command(junit), log, limit_s, environment)
    seconds = time.monotonic() - begin

    count = Count()
    if tier.junit:
        try:
            count = count_junit(junit)
        except (OSError, ET.ParseError):
            count.fail(f"{tier.name} wrote no result")
        if not count.passed and not count.failed:
            count.fail(f"{tier.name} ran no test")
    elif done.exit_code == 0:
        count.passed = 1
    if done.timed_out:
        count.fail(f"{tier.name} took more than {limit_s:.0f} s")
    elif done.exit_code != 0 and not count.failed:
        count.fail(f"{tier.name} ended with exit code {done.exit_code}")
    for process in done.left_behind:
        count.fail(f"{tier.name} left a process behind: {process}")

    print(f"   {count}, {seconds:.0f} s", flush=True)
    if count.failed:
        lines = log.read_text(errors="replace").splitlines()
        print("\n".join(f"   | {line}" for line in lines[-80:]))
        for name in count.names:
            print(f"   FAILED {name}")
        print(f"   whole log: {log.relative_to(ROOT)}", flush=True)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="TIER", help="only these tiers")
    parser.add_argument("--list", action="store_true", help="name the tiers and stop")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{tier.name:10} {tier.what}" for tier in TIERS))
        return 0
    unknown = set(options.names) - {tier.name for tier in TIERS}
    if unknown:
        parser.error(f"no such tier: {', '.join(sorted(unknown))}; --list names them")

    OUT.mkdir(parents=True, exist_ok=True)
    processes.adopt_orphans()
    soak = os.environ.get("SLUICE_SOAK") == "1"
    begin = time.monotonic()
    total = Count()
    for tier in TIERS:
        if not options.names or tier.name in options.names:
            total.add(run(tier, soak))
    seconds = time.monotonic() - begin
    print(f"== all of it: {seconds:.0f} s")
    for name in total.names:
        print(f"FAILED {name}")
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
