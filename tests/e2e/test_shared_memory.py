"""What engines leave behind is seen: shared memory and semaphores of a killed process."""

import subprocess
import sys

from shared_memory import Watch, engine_files

KEEPS = """
import multiprocessing, os, sys
from multiprocessing import resource_tracker, shared_memory
block = shared_memory.SharedMemory(create=True, size=4096)
lock = multiprocessing.get_context("spawn").Lock()
os.kill(resource_tracker._resource_tracker._pid, 9)  # dies with its group in an engine's place
print("ready", flush=True)
sys.stdin.read()
"""


def test_files_of_a_process_are_found_while_it_lives_and_have_no_owner_once_it_is_killed() -> None:
    with (
        Watch() as watch,
        subprocess.Popen(
            [sys.executable, "-c", KEEPS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        files = engine_files([process.pid])
        watch.look()
        assert watch.left() == []
        process.kill()
    try:
        assert sorted(path.name[:4] for path in files) == ["psm_", "sem."]
        assert watch.left() == sorted(map(str, files))
    finally:
        for path in files:
            path.unlink()
    assert watch.left() == []
