"""Importing the package changes nothing in a process that does not ask for it."""

import json
import subprocess
import sys
from importlib.metadata import distributions

PROBE = """
import json, os, sys, threading
modules, threads = set(sys.modules), os.listdir("/proc/self/task")
descriptors = os.listdir("/proc/self/fd")
import sluice
print(json.dumps({
    "new": sorted({name.partition(".")[0] for name in set(sys.modules) - modules}),
    "sluice": sorted(name for name in sys.modules if name.startswith("sluice")),
    "threads": len(os.listdir("/proc/self/task")) - len(threads),
    "python_threads": threading.active_count(),
    "descriptors": len(os.listdir("/proc/self/fd")) - len(descriptors),
}))
"""


def probe() -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_import_loads_no_engine_and_no_tensor_library() -> None:
    new = probe()["new"]
    assert isinstance(new, list)
    assert "sluice" in new
    assert not {"torch", "numpy", "vllm", "ml_dtypes"} & set(new)


def test_import_does_not_load_the_connector() -> None:
    loaded = probe()["sluice"]
    assert isinstance(loaded, list)
    assert not [name for name in loaded if name.startswith("sluice.vllm")]


def test_import_starts_no_thread_and_opens_no_descriptor() -> None:
    answer = probe()
    assert answer["threads"] == 0
    assert answer["python_threads"] == 1
    assert answer["descriptors"] == 0


def test_no_entry_point_of_this_environment_leads_to_sluice() -> None:
    found = [
        entry
        for distribution in distributions()
        for entry in distribution.entry_points
        if entry.value.partition(":")[0].split(".")[0] == "sluice"
    ]
    assert found == []
