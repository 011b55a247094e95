"""Files in shared memory that a process has mapped: what a kill leaves behind has an owner.

vLLM keeps message queues and semaphores in /dev/shm and removes them when it stops; a test that
kills an engine removes them in its place.
"""

import contextlib
from pathlib import Path

SHARED = "/dev/shm/"
ENGINE_FILES = ("psm_", "sem.", "vllm")


def group_members(group: int) -> list[int]:
    """The living processes of a process group."""
    members = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                after_name = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(after_name[2]) == group:
                    members.append(int(folder.name))
    return members


def engine_files(pids: list[int]) -> set[Path]:
    """What these processes have mapped of vLLM's own shared memory."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                _, slash, name = line.partition(SHARED)
                if slash and name.startswith(ENGINE_FILES):
                    found.add(Path(SHARED + name.removesuffix(" (deleted)")))
    return found
