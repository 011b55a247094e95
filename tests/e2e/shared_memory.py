"""What engines keep in shared memory, and whose it is.

vLLM keeps message queues and semaphores in /dev/shm and removes them when it stops by itself. What
a kill leaves has an owner as long as some process lives that has it mapped; after that it has none,
and stays until the machine restarts.
"""

import contextlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

SHARED = "/dev/shm/"
ENGINE_FILES = ("psm_", "sem.", "vllm")
ARENAS = "sluice-pytest-"
LOOK_S = 5.0  # between two looks: engines live longer


def processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]


def group_members(group: int) -> list[int]:
    """The living processes of a process group."""
    members = []
    for pid in processes():
        with contextlib.suppress(OSError, IndexError):
            state, _, of = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state != "Z":
                members.append(pid)
    return members


def engine_files(pids: Iterable[int]) -> set[Path]:
    """What these processes have mapped of vLLM's own shared memory."""
    held, _ = mapped(pids)
    return {path for path in entries(SHARED, ENGINE_FILES) if inode(path) in held}


def mapped(pids: Iterable[int]) -> tuple[set[int], set[str]]:
    """What these processes have mapped of /dev/shm: the inodes, and the names of folders.

    A semaphore's file is made under another name than the one it has later, and that other one is
    what the system shows; only its inode says which one it is.
    """
    inodes, folders = set(), set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                before, slash, name = line.partition(f" {SHARED}")
                if slash:
                    inodes.add(int(before.split()[4]))
                    folders.add(name.partition("/")[0])
    return inodes, folders


def ownerless() -> set[Path]:
    """Engines' files and tests' arenas of this user that no process has mapped any more."""
    held, folders = mapped(processes())
    files = [path for path in entries(SHARED, ENGINE_FILES) if inode(path) not in held]
    arenas = [path for path in entries(SHARED, (ARENAS,)) if path.name not in folders]
    return {path for path in (*files, *arenas) if inode(path)}


def descendants() -> list[int]:
    """The processes that this one started, and those that they did."""
    children: dict[int, list[int]] = {}
    for pid in processes():
        with contextlib.suppress(OSError, IndexError):
            parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(pid)
    found: list[int] = []
    next_ones = [os.getpid()]
    while next_ones:
        next_ones = [child for pid in next_ones for child in children.get(pid, [])]
        found += next_ones
    return found


class Watch:
    """Remembers what the descendants of this process have mapped, so that what they leave is told
    from what other programs of the machine do. Looks now and then, on a thread of its own. A
    context manager."""

    def __init__(self) -> None:
        self._inodes: set[int] = set()
        self._folders: set[str] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, name="watch")

    def left(self) -> list[str]:
        """What of it has no owner now."""
        found = [
            path
            for path in ownerless()
            if inode(path) in self._inodes or path.name in self._folders
        ]
        return sorted(map(str, found))

    def look(self) -> None:
        """Now, for who cannot wait."""
        inodes, folders = mapped(descendants())
        self._inodes |= inodes
        self._folders |= folders

    def _work(self) -> None:
        self.look()
        while not self._end.wait(LOOK_S):
            self.look()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()


def entries(folder: str, starts: tuple[str, ...]) -> list[Path]:
    return [path for path in Path(folder).iterdir() if path.name.startswith(starts)]


def inode(path: Path) -> int:
    """Of a file of this user; 0 for others', and when it is gone."""
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        if found.st_uid == os.getuid():
            return found.st_ino
    return 0
