"""A real `sluiced` with an arena of its own, for one test, and a way to damage what is in it."""

import os
from pathlib import Path
from typing import Self

import torch
from arena_daemon import ArenaDaemon

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SLUICE_BUILD", ROOT / "build" / "release"))


class ArenaProcess(ArenaDaemon):
    """The daemon of the build under test. Runs once it is made, unless `start` is false."""

    def __init__(self, size: str = "64MiB", start: bool = True) -> None:
        super().__init__(BUILD / "apps" / "sluiced" / "sluiced", size)
        if start:
            self.start()

    def __enter__(self) -> Self:
        return self


def flip_byte(directory: str, payload: torch.Tensor) -> None:
    """Flips one bit of the only place in the arena's data segments that holds these bytes."""
    wanted = payload.contiguous().view(torch.uint8).numpy().tobytes()
    places = []
    for path in Path(directory).iterdir():
        if path.is_file():
            content = path.read_bytes()
            at = content.find(wanted)
            if at >= 0:
                places.append((path, at + len(wanted) // 2))
    assert len(places) == 1, places
    path, at = places[0]
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
