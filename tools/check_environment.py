"""Settings come from one place: only apps/*/options.cc reads the process environment.

Tests may read the seed and the counts that make them repeatable. Prints each other read and exits
1.
"""

import re
import sys
from pathlib import Path

from sources import ROOT, cpp_files, tracked

CPP_READ = re.compile(r"\b(?:secure_)?getenv\s*\(|\benviron\b")
PYTHON_READ = re.compile(r"\bos\.(?:environb?|getenvb?)\b")
COMMENT = re.compile(r"^\s*(?://|#|\*)")


def is_options(path: Path) -> bool:
    return path.parts[0] == "apps" and path.name == "options.cc"


def is_test(path: Path) -> bool:
    return path.stem.endswith("_test") or path.name.startswith("test_")


def reads(path: Path, pattern: re.Pattern[str]) -> list[int]:
    """Line numbers at which a file reads the environment."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return [
        n for n, line in enumerate(lines, 1) if pattern.search(line) and not COMMENT.match(line)
    ]


def main() -> int:
    found = 0
    sources = [(path, CPP_READ) for path in cpp_files("src", "include", "apps", "python/bindings")]
    sources += [(path, PYTHON_READ) for path in tracked("python/sluice") if path.suffix == ".py"]
    for path, pattern in sources:
        if is_options(path) or is_test(path):
            continue
        for line in reads(path, pattern):
            found += 1
            print(f"{path}:{line}: reads the environment; make it a setting in apps/*/options.cc")
    if not found:
        print(f"{len(sources)} files, none reads the environment outside apps/*/options.cc")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
