"""What kind of machine the figures come from."""

import os
import platform
from pathlib import Path


def facts() -> dict[str, str | int | list[float]]:
    """Processors, memory, kernel, and how busy the machine was."""
    return {
        "processor": _field("/proc/cpuinfo", "model name"),
        "processors": os.cpu_count() or 0,
        "memory": _field("/proc/meminfo", "MemTotal"),
        "shmem_huge_pages": _text("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": list(os.getloadavg()),
    }


def _field(path: str, name: str) -> str:
    for line in _text(path).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return "unknown"
