"""One engine step's reads of its own blocks, until the writer thread has done them.

Invariant: after wait() returned, no read that this ticket still admits is running on blocks that
           the engine may give away: read_done() of a job that came too late says so, and what it
           read is thrown away.
Threads:   the engine's thread adds and waits; the writer thread reports.
"""

import threading
import time


class StepTicket:
    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._reads = 0
        self._commits = 0
        self._expired = False

    def add(self, *, commit: bool) -> None:
        with self._condition:
            self._reads += 1
            self._commits += commit

    def read_done(self) -> bool:
        """False: the step went on without this read."""
        with self._condition:
            self._reads -= 1
            self._condition.notify_all()
            return not self._expired

    def commit_done(self) -> None:
        """Committed or not, it will not change any more."""
        with self._condition:
            self._commits -= 1
            self._condition.notify_all()

    @property
    def expired(self) -> bool:
        return self._expired

    def wait(self, timeout_s: float) -> bool:
        """Until every read and every commit of this step is done. False: a read is not; from now
        on none counts."""
        deadline = time.monotonic() + timeout_s
        with self._condition:
            while self._reads or self._commits:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._condition.wait(left)
            self._expired = self._reads > 0
            return not self._expired
