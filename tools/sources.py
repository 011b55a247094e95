"""Which files of the repository the checks look at, and what they include. Shared by the tools of
this folder.
"""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPP_SUFFIXES = {".h", ".cc", ".cpp", ".cu"}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)


def tracked(*folders: str) -> list[Path]:
    """Files under `folders` that git tracks or would track, relative to the repository's root,
    sorted.
    """
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *folders],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    return sorted({Path(name) for name in listing.split("\0") if name and (ROOT / name).is_file()})


def cpp_files(*folders: str) -> list[Path]:
    """C++ sources and headers under `folders`."""
    return [path for path in tracked(*folders) if path.suffix in CPP_SUFFIXES]


def includes(path: Path) -> list[tuple[int, str, str]]:
    """(line number, '<' or '"', name) of each include of a file; `path` is relative to the
    repository's root.
    """
    text = (ROOT / path).read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, found.start(1)) + 1, found.group(1), found.group(2))
        for found in INCLUDE.finditer(text)
    ]


def resolve(path: Path, name: str) -> Path | None:
    """The repository's file that `#include "name"` or `<name>` in `path` means; None for a foreign
    header.
    """
    roots = (path.parent, Path("src"), Path("include"), Path("apps"), Path())
    for candidate in (root / name for root in roots):
        if (ROOT / candidate).is_file():
            return candidate
    return None


def closure(start: Path) -> Iterable[Path]:
    """`start` and every file of the repository that it includes, directly or not."""
    seen: set[Path] = set()
    waiting = [start]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for _, _, name in includes(path):
            found = resolve(path, name)
            if found is not None:
                waiting.append(found)
    return sorted(seen)
