"""`make check`: format, include direction, environment reads, awaits, ruff, mypy and clang-tidy,
quickest first.

Runs all of them even when one fails, prints one line for each, and what a failing one said. Exits 1
if any failed. `check.py NAME...` runs only those named; `check.py --fix` lets clang-format and ruff
repair what they can.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sources import ROOT, cpp_files, tracked

BIN = Path(sys.executable).parent
CPP_FOLDERS = ("src", "include", "apps", "python/bindings", "tests", "fuzz", "bench")
PYTHON_FOLDERS = ("python", "tools", "demo", "tests", "bench", "fuzz")
Command = Sequence[str | Path]
ENVIRONMENT = {**os.environ, "MYPYPATH": "python:tools:demo:bench"}


def format_command(fix: bool) -> list[Command]:
    mode = ["-i"] if fix else ["--dry-run", "--Werror"]
    return [[BIN / "clang-format", *mode, *cpp_files(*CPP_FOLDERS)]]


def ruff_commands(fix: bool) -> list[Command]:
    files = [path for path in tracked(*PYTHON_FOLDERS) if path.suffix in {".py", ".pyi"}]
    lint: Command = [BIN / "ruff", "check", "--quiet", *(["--fix"] if fix else []), *files]
    style: Command = [
        BIN / "ruff",
        "format",
        "--quiet",
        *([] if fix else ["--check", "--diff"]),
        *files,
    ]
    return [lint, style]


def mypy_commands(fix: bool) -> list[Command]:
    def run(*paths: str | Path) -> Command:
        return [BIN / "mypy", "--strict", *paths]

    # Programs import their neighbours by bare name, so each folder is looked at from inside.
    def here(folder: str) -> Command:
        files = (path for path in tracked(folder) if path.suffix == ".py")
        return run("--no-explicit-package-bases", *files)

    return [run("-p", "sluice"), here("tools"), here("demo")]


def own_tool(name: str) -> Callable[[bool], list[Command]]:
    return lambda fix: [[sys.executable, ROOT / "tools" / name]]


CHECKS: dict[str, Callable[[bool], list[Command]]] = {
    "format": format_command,
    "includes": own_tool("check_includes.py"),
    "environment": own_tool("check_environment.py"),
    "awaits": own_tool("check_awaits.py"),
    "ruff": ruff_commands,
    "mypy": mypy_commands,
    "tidy": own_tool("tidy.py"),
}


def run(name: str, fix: bool) -> bool:
    """Runs one check and prints its line; True if it passed."""
    begin = time.monotonic()
    done = [
        subprocess.run(
            command, cwd=ROOT, env=ENVIRONMENT, check=False, capture_output=True, text=True
        )
        for command in CHECKS[name](fix)
    ]
    passed = all(one.returncode == 0 for one in done)
    last = (done[-1].stdout.strip().splitlines() or [""])[-1]
    verdict = "ok  " if passed else "FAIL"
    print(f"{verdict} {name:12} {time.monotonic() - begin:6.1f} s  {last if passed else ''}")
    if not passed:
        for one in done:
            if one.returncode != 0:
                print((one.stdout + one.stderr).strip())
    sys.stdout.flush()
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these checks")
    parser.add_argument(
        "--fix", action="store_true", help="let clang-format and ruff repair what they can"
    )
    options = parser.parse_args()
    unknown = set(options.names) - set(CHECKS)
    if unknown:
        parser.error(f"no such check: {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}")
    results = [run(name, options.fix) for name in options.names or CHECKS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
