"""How much of the arena one engine's mapped entries may keep from being evicted.

Below the arena's high watermark nothing is short and entries stay mapped. Above it an engine's idle
entries may pin `share_max` of the arena; what exceeds that is copied out.

Threads: refresh() on the keeper thread, excess() on the engine's.
"""

from sluice import _core

HIGH_WATERMARK = 0.85  # of the arena; eviction keeps a full one between 0.90 and 0.95


class PinBudget:
    def __init__(self, share_max: float) -> None:
        self._share_max = share_max
        self._allowed_bytes: int | None = None  # None: nothing is short

    def refresh(self, client: "_core.Client") -> bool:
        """Keeper's listener."""
        stats = client.stats()
        arena, used = int(stats["arena_bytes"]), int(stats["used_bytes"])
        short = used > arena * HIGH_WATERMARK
        self._allowed_bytes = int(arena * self._share_max) if short else None
        return False

    def excess(self, pinned_bytes: int) -> int:
        """Bytes to unpin now; 0 or less when none."""
        return 0 if self._allowed_bytes is None else pinned_bytes - self._allowed_bytes
