"""What the connector counts, and the one place where each count is named and explained.

Invariant: counts only grow. Every outcome that a user could miss has a count.
Threads:   any.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence

# name -> what it counts; the names are those of the Prometheus metrics, after `sluice_ec_`.
COUNTERS: dict[str, str] = {
    "hits": "items whose feature was found in the arena, checked and promised to the engine",
    "misses": "items whose feature was neither present nor announced",
    "loads": "features mapped into a worker's encoder cache",
    "load_bytes": "bytes of those features",
    "load_us": "microseconds the worker's load hooks took",
    "load_retries": "loads that a worker could not adopt by descriptor and got by key",
    "load_failures": "loads that a worker could not do at all",
    "copied_out": "idle entries copied into the engine's own memory to unpin the arena",
    "copied_out_bytes": "bytes of those entries",
    "local_encodes": "items this consumer encoded by itself",
    "fallback_absent": "items with media encoded locally because no feature was there",
    "fallback_deadline": "items with media encoded locally because the deadline passed",
    "fallback_spec_mismatch": "items with media encoded locally because of another stored shape",
    "fallback_corrupt": "items with media encoded locally because the stored bytes are damaged",
    "fallback_ranks": "items with media encoded locally because a worker rank is not attached",
    "fallback_no_arena": "items with media encoded locally because no daemon has been reached yet",
    "failed_absent": "requests failed because a feature was neither there nor announced",
    "failed_deadline": "requests failed because a feature did not come before the deadline",
    "failed_spec_mismatch": "requests failed because the stored shape is another",
    "failed_corrupt": "requests failed because the stored bytes are damaged",
    "failed_ranks": "requests failed because a worker rank is not attached",
    "failed_no_arena": "requests failed because no daemon has been reached yet",
    "corrupt": "objects whose bytes did not match their checksums",
    "unchecked": "features without checksums that were accepted after the shape check alone",
    "saves": "features published",
    "save_bytes": "bytes of those features",
    "save_us": "microseconds the worker's save hooks took",
    "save_duplicates": "features that another writer had published first",
    "save_divergent": "features that another writer had published first, with other bytes",
    "save_pending_elsewhere": "features that another live writer is writing",
    "save_failures": "features that could not be stored",
    "save_inline": "features published inside the engine's step because the save queue was full",
    "save_nonfinite": "features refused because they hold a value that is not finite",
    "republished": "features published again, out of the engine's own cache or a former arena",
    "republish_missing": "features to republish that were in neither",
    "encodes_skipped": "encodes a producer skipped because the arena has the feature",
    "attaches": "times this process attached to an arena",
}


class Counters:
    """Named counts of one process."""

    def __init__(self, names: Iterable[str] = COUNTERS) -> None:
        self._lock = threading.Lock()
        self._values = dict.fromkeys(names, 0)
        self.version = 0  # changes with every count

    def add(self, name: str, amount: int = 1) -> None:
        """`name` must be one of the names it was made with."""
        with self._lock:
            self._values[name] += amount
            self.version += 1

    def get(self, name: str) -> int:
        return self._values[name]

    def snapshot(self) -> dict[str, int]:
        """All counts that are not zero."""
        with self._lock:
            return {name: value for name, value in self._values.items() if value}


def total(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The sum of several snapshots; names that are not COUNTERS are left out."""
    out: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            if name in COUNTERS:
                out[name] = out.get(name, 0) + value
    return out
