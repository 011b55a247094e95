"""clang-tidy over src, apps and python/bindings, remembering which files were clean.

A source is looked at again when it, a header of the repository that it includes, its compile
command, .clang-tidy or the tool's version changed. Prints the findings and exits 1 when there are
any.
"""

import concurrent.futures
import hashlib
import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from sources import ROOT, closure

BUILD = ROOT / "build" / "release"
CACHE = ROOT / "build" / "stamps" / "tidy"
TIDY = Path(sys.executable).parent / "clang-tidy"
FOLDERS = ("src/", "apps/", "python/bindings/")
# GCC's own warning names mean nothing to clang; its parser is not the compiler of this code base.
EXTRA = ["--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-error"]


@dataclass(frozen=True)
class Source:
    path: Path
    stamp: Path


def sources() -> list[Source]:
    """The sources of the release build that clang-tidy looks at, tests aside, with the stamp of
    each one's state.
    """
    tool = subprocess.run([TIDY, "--version"], check=True, capture_output=True).stdout
    settings = (ROOT / ".clang-tidy").read_bytes()
    found: dict[Path, Source] = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        file = Path(entry["directory"], entry["file"]).resolve()
        if not file.is_relative_to(ROOT):
            continue
        path = file.relative_to(ROOT)
        if not path.as_posix().startswith(FOLDERS) or path.name.endswith("_test.cc"):
            continue
        digest = hashlib.sha256(tool + settings + entry["command"].encode())
        for part in closure(path):
            digest.update(str(part).encode() + b"\0" + (ROOT / part).read_bytes())
        found[path] = Source(path, CACHE / digest.hexdigest())
    return sorted(found.values(), key=lambda source: source.path)


def look_at(source: Source) -> str:
    """The findings in one source, as text; empty when it is clean, which is then remembered."""
    done = subprocess.run(
        [TIDY, "--quiet", "-p", BUILD, *EXTRA, source.path],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        source.stamp.touch()
        return ""
    return done.stdout.strip() or done.stderr.strip() or shlex.join(map(str, done.args))


def main() -> int:
    CACHE.mkdir(parents=True, exist_ok=True)
    everything = sources()
    todo = [source for source in everything if not source.stamp.exists()]
    findings = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for text in pool.map(look_at, todo):
            if text:
                findings += 1
                print(text)
    print(f"{len(everything)} sources, {len(todo)} looked at now, {findings} with findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
