"""Checks leased objects against their checksums beside the scheduler's thread.

The check reads every byte of a feature once; the result is remembered by the client per slot and
generation, so a feature costs it once in a process.

Threads: submit() from the scheduler's thread; one helper thread works.
Owner:   while a check runs, the lease belongs to the pool; let_go() ends it afterwards.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal

from vllm.logger import init_logger

from sluice import _core

logger = init_logger("vllm.sluice.verify")


class VerifyPool:
    def __init__(self, mode: Literal["once", "always"]) -> None:
        self._mode = mode
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sluice-verify")

    @property
    def always(self) -> bool:
        """Every lease is checked, whatever was checked before."""
        return self._mode == "always"

    def submit(self, lease: "_core.Lease") -> "Future[None]":
        """The future ends without a value, or with _core.Corrupt or another _core.Error."""
        return self._executor.submit(lease.verify, self._mode)

    def then(self, future: "Future[None]", lease: "_core.Lease") -> None:
        """Ends the lease once nobody reads it any more."""
        future.add_done_callback(lambda _: lease.release())

    def run(self, task: Callable[[], object]) -> None:
        """Something that may wait for the daemon; its failure is only logged."""

        def guarded() -> None:
            try:
                task()
            except _core.Error as error:
                logger.debug("sluice: %s", error)

        self._executor.submit(guarded)

    def close(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)
