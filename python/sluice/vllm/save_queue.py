"""Publishes what was copied into the arena, beside the engine's thread.

Between reserve and publish lie the checksums and the daemon's answer: both happen here. The bytes
are in the arena already, so the queue holds reservations and no tensor.

Threads: put() from the engine's thread, one helper thread publishes.
Limits:  at most `items_max` reservations wait; put() says False when it is full, and the caller
         publishes by itself.
Failure: each outcome is handed to the callback; nothing is raised on either thread.
"""

import queue
import threading
from collections.abc import Callable

from sluice.vllm.pending_save import PendingSave


class SaveQueue:
    def __init__(self, items_max: int, finish: Callable[[PendingSave], None]) -> None:
        self._finish = finish
        self._queue: queue.Queue[PendingSave | None] = queue.Queue(items_max)
        self._thread = threading.Thread(target=self._work, name="sluice-save", daemon=True)
        self._thread.start()

    def put(self, save: PendingSave) -> bool:
        """False when the queue is full."""
        try:
            self._queue.put_nowait(save)
        except queue.Full:
            return False
        return True

    def close(self, timeout: float) -> None:
        """Publishes what waits, then ends."""
        self._queue.put(None)
        self._thread.join(timeout)

    def _work(self) -> None:
        while (save := self._queue.get()) is not None:
            self._finish(save)
            del save  # the reservation ends here, not when the next one comes
