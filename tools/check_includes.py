"""Include direction: a folder includes itself and what stands to its left, never a neighbour.

    base < tensor < device < arena < store < kv        base < metrics        base < sched, http
    store, kv, sched, http, metrics < proxy

Programs and bindings stand on top of all of them, and nothing includes a program; apps/common
serves the programs. Prints each include that breaks this as `file:line: reason` and exits 1; prints
one line and exits 0 when none does.
"""

import sys
from pathlib import Path

from sources import cpp_files, includes, resolve

STATE = ("base", "tensor", "device", "arena", "store", "kv")
MAY_INCLUDE: dict[str, set[str]] = {
    **{folder: set(STATE[: place + 1]) for place, folder in enumerate(STATE)},
    "metrics": {"base", "metrics"},
    "sched": {"base", "sched"},
    "http": {"base", "http"},
    # Attached like any other client: it looks features up and ends hand-offs.
    "proxy": {"base", "tensor", "device", "store", "kv", "sched", "http", "metrics", "proxy"},
}

# The installed headers belong to the folder that implements them.
PUBLIC_HEADERS = {
    "error.h": "base",
    "version.h": "base",
    "tensor.h": "tensor",
    "object_key.h": "tensor",
    "device.h": "device",
    "client.h": "store",
}


def folder_of(path: Path) -> str | None:
    """The folder of `src` that a file belongs to; None for what stands on top of all of them."""
    if path.parts[0] == "src":
        return path.parts[1]
    if path.parts[:2] == ("include", "sluice"):
        return PUBLIC_HEADERS.get(path.name, "an unlisted public header")
    return None


def broken_include(path: Path, name: str, quote: str) -> str | None:
    """Why this include is not allowed; None if it is."""
    if ".." in Path(name).parts:
        return f"{name} goes up a folder; name it from src/ or include/"
    target = resolve(path, name)
    if target is None:
        return (
            f"{name} names no file of this repository; foreign headers take <>"
            if quote == '"'
            else None
        )
    if target.parts[0] == "apps" and target.parts[1] not in {"common", *path.parts[1:2]}:
        return f"{name} belongs to another program"
    if target.parts[0] == "apps" and path.parts[0] != "apps":
        return f"{name} belongs to a program; nothing below the programs includes it"
    source, wanted = folder_of(path), folder_of(target)
    if path.parts[0] == "include" and target.parts[0] != "include":
        return f"{name} is private; an installed header includes only installed headers"
    if source is None:
        return None
    if source not in MAY_INCLUDE:
        return f"{source} has no place in the order; give it one in tools/check_includes.py"
    if wanted is None or wanted not in MAY_INCLUDE[source]:
        there = wanted or target.parts[0]
        return f"{source} may not include {name} ({there} does not stand to its left)"
    return None


def main() -> int:
    count = 0
    broken = 0
    for path in cpp_files("src", "include", "apps", "python/bindings"):
        for line, quote, name in includes(path):
            count += 1
            reason = broken_include(path, name, quote)
            if reason is not None:
                broken += 1
                print(f"{path}:{line}: {reason}")
    if not broken:
        print(f"{count} includes, all in the right direction")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
