"""Removes hand-offs from the arena, beside the scheduler's thread.

Threads: release() from any thread; one helper thread asks the daemon.
Limits:  what cannot be removed after a few tries is left to the hand-off's lifetime.
"""

import queue
import threading

from sluice import _core
from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters

_TRIES = 3
_TIMEOUT_S = 5.0


class Janitor:
    def __init__(self, attachment: Attachment, counters: Counters, tenant: str) -> None:
        self._attachment = attachment
        self._counters = counters
        self._tenant = tenant
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="sluice-kv-janitor", daemon=True)
        self._thread.start()

    def release(self, handoff: str) -> None:
        """Everything of this hand-off may go. Idempotent."""
        self._queue.put(handoff)

    def close(self, timeout: float) -> None:
        """Removes what waits, then ends."""
        self._queue.put(None)
        self._thread.join(timeout)

    def _work(self) -> None:
        while (handoff := self._queue.get()) is not None:
            prefix = _core.KvKeys(self._tenant, handoff).prefix
            for _ in range(_TRIES):
                client = self._attachment.client
                if client is None:
                    break
                try:
                    client.invalidate(prefix, _TIMEOUT_S)
                except _core.Error:
                    continue
                self._counters.add("released")
                break
