"""Decode, worker side: copies hand-offs from the arena into the engine's blocks, beside its thread.

Parts are taken in the order in which prefill made them, as they appear. A load is done when every
rank's commit that concerns this one was read and agrees, and its parts cover every layer and block;
until then nothing counts. It fails when nothing more of it has come for `load_timeout_s`.

Invariant: each load that was given is answered exactly once, after this thread's last write to its
           blocks.
Threads:   put(), cancel(), take(), rest() from the engine's thread; everything else on the
           loader thread.
Failure:   a load that cannot be done is answered as failed, counted by cause, and logged once for
           each cause; the engine computes the prompt again.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from vllm.logger import init_logger

from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters
from sluice.vllm.kv.load import Load, LoadFailed
from sluice.vllm.kv.metadata import LoadJob
from sluice.vllm.kv.settings import KVSettings

logger = init_logger("vllm.sluice.kv.loader")

_PACE_S = 0.002  # between two looks for parts that are not there yet


@dataclass(slots=True)
class _Open:
    load: Load
    until: float  # when it fails unless more of it comes


@dataclass(frozen=True, slots=True)
class Loaded:
    request_id: str
    failed_blocks: tuple[int, ...]  # empty: everything is there, or nobody waits for it


class HandoffLoader:
    def __init__(
        self,
        settings: KVSettings,
        attachment: Attachment,
        counters: Counters,
        open_load: Callable[[LoadJob], Load],
    ) -> None:
        self._settings = settings
        self._attachment = attachment
        self._counters = counters
        self._open = open_load
        self._said: set[str] = set()
        self._condition = threading.Condition()
        self._given: dict[str, LoadJob] = {}  # by request
        self._cancelled: set[str] = set()
        self._done: list[Loaded] = []
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="sluice-kv-loader", daemon=True)
        self._thread.start()

    def put(self, job: LoadJob) -> None:
        with self._condition:
            self._given[job.request_id] = job
            self._condition.notify_all()

    def cancel(self, request_id: str) -> None:
        """Nothing happens for a load that is answered already."""
        with self._condition:
            if request_id in self._given:
                self._cancelled.add(request_id)
                self._condition.notify_all()

    def take(self) -> list[Loaded]:
        """Loads that ended since the last call."""
        with self._condition:
            done, self._done = self._done, []
            return done

    def rest(self, timeout_s: float) -> None:
        """Until a load has ended or the time is up; at once when none is under way."""
        with self._condition:
            self._condition.wait_for(lambda: self._done or not self._given, timeout_s)

    def close(self, timeout: float) -> None:
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        self._thread.join(timeout)

    # --- on the loader thread ---

    def _work(self) -> None:
        loads: dict[str, _Open] = {}
        while True:
            with self._condition:
                while not self._given and not self._closing:
                    self._condition.wait()
                if self._closing:
                    return
                given = dict(self._given)
                cancelled = set(self._cancelled)
            moved = False
            for request_id, job in given.items():
                if request_id in cancelled:
                    self._counters.add("load_cancelled")
                    self._answer(loads, request_id, ())
                    continue
                moved = self._advance(loads, job) or moved
            with self._condition:
                if not moved and self._given and not self._closing:
                    self._condition.wait(_PACE_S)

    def _advance(self, loads: dict[str, _Open], job: LoadJob) -> bool:
        """Takes one part of one load. False: there was none to take."""
        started = time.perf_counter_ns()
        moved = True
        try:
            opened = loads.get(job.request_id)
            if opened is None:
                opened = loads[job.request_id] = _Open(self._open(job), self._patience())
                self._counters.add("loads_in_progress", int(job.ranks is None))
            client = self._attachment.client
            moved = client is not None and opened.load.advance(client)
            if opened.load.complete:
                self._counters.add("loads")
                self._answer(loads, job.request_id, ())
            elif moved:
                opened.until = self._patience()
            else:
                self._counters.add("receive_waits")
                if time.monotonic() > opened.until:
                    raise LoadFailed("deadline", opened.load.missing())
        except LoadFailed as failure:
            self._failed(loads, job, failure.cause, str(failure))
        except Exception as error:  # nobody else would ever answer for this request
            logger.exception("sluice: kv loader")
            self._failed(loads, job, "other", str(error))
        self._counters.add("receive_us", (time.perf_counter_ns() - started) // 1000)
        return moved

    def _patience(self) -> float:
        return time.monotonic() + self._settings.load_timeout_s

    def _failed(self, loads: dict[str, _Open], job: LoadJob, cause: str, text: str) -> None:
        self._counters.add("receive_failures")
        self._counters.add(f"failed_{cause}")
        if cause not in self._said:
            self._said.add(cause)
            logger.error(
                "sluice: hand-off %s was not loaded (%s): %s; further failures of this kind are "
                "only counted",
                job.handoff,
                cause,
                text,
            )
        self._answer(loads, job.request_id, job.block_ids)

    def _answer(
        self, loads: dict[str, _Open], request_id: str, failed_blocks: tuple[int, ...]
    ) -> None:
        loads.pop(request_id, None)
        with self._condition:
            del self._given[request_id]
            self._cancelled.discard(request_id)
            self._done.append(Loaded(request_id, failed_blocks))
            self._condition.notify_all()
