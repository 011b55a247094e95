"""Prefill, worker side: copies finished layer groups into the arena, beside the engine's thread.

One thread takes (hand-off, layer group, block range) in the order in which they became ready,
reserves, gathers, publishes; after the last of a prompt it publishes the commit. What a hand-off
may do next is decided by the native state machine (src/kv/handoff.h).

Invariant: a commit is published only after every part of its generation. What a hand-off leaves
           behind when it ends otherwise is removed by this thread, after its last write.
Threads:   put(), end() from the engine's thread; everything else on the writer thread.
Limits:    HANDOFFS_MAX hand-offs are remembered; the oldest is forgotten first, and its parts are
           left to their lifetime.
Failure:   nothing is raised. A hand-off that cannot be written is rolled back, counted, logged once
           for each cause and named on the board.
"""

import queue
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from vllm.logger import init_logger

from sluice import _core
from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters
from sluice.vllm.kv.board import Board
from sluice.vllm.kv.description import Description
from sluice.vllm.kv.metadata import SaveJob
from sluice.vllm.kv.paged_cache import PagedCache
from sluice.vllm.kv.settings import KVSettings
from sluice.vllm.kv.step_ticket import StepTicket

logger = init_logger("vllm.sluice.kv.writer")

HANDOFFS_MAX = 1024


@dataclass(frozen=True, slots=True)
class GroupReady:
    """One layer group of one job, computed."""

    job: SaveJob
    group: int
    last: bool  # of the job's groups
    ticket: StepTicket


@dataclass(frozen=True, slots=True)
class Ended:
    """The request is over. Not committed: nobody will read what was written."""

    handoff: str
    committed: bool


class _Failed(Exception):
    """This hand-off cannot be written: cause, and one sentence."""

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(text)
        self.cause = cause


class HandoffWriter:
    def __init__(
        self,
        settings: KVSettings,
        attachment: Attachment,
        board: Board,
        counters: Counters,
        rank: int,
        ranks: int,
    ) -> None:
        self._settings = settings
        self._attachment = attachment
        self._board = board
        self._counters = counters
        self._rank = rank
        self._ranks = ranks
        self._states: OrderedDict[str, _core.KvHandoff] = OrderedDict()
        self._said: set[str] = set()
        self._queue: queue.SimpleQueue[GroupReady | Ended | None] = queue.SimpleQueue()
        self._cache: PagedCache | None = None
        self._description: Description | None = None
        self._thread = threading.Thread(target=self._work, name="sluice-kv-writer", daemon=True)

    def start(self, cache: PagedCache, description: Description) -> None:
        self._cache = cache
        self._description = description
        self._thread.start()

    def put(self, ready: GroupReady) -> None:
        """The ticket must have been told of it."""
        self._queue.put(ready)

    def end(self, ended: Ended) -> None:
        self._queue.put(ended)

    def close(self, timeout: float) -> None:
        """Writes what waits, then ends."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join(timeout)

    # --- on the writer thread ---

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            try:
                if isinstance(item, Ended):
                    self._end(item)
                else:
                    self._write(item)
            except Exception:  # a bug; without this thread no hand-off would ever be written
                logger.exception("sluice: kv writer")

    def _end(self, ended: Ended) -> None:
        state = self._states.pop(ended.handoff, None)
        if state is None:
            return
        if not ended.committed and state.phase != "rolled_back":
            self._counters.add("send_cancelled")
        step = state.advance("release" if ended.committed else "cancel", state.generation)
        self._remove(ended.handoff, step)

    def _write(self, ready: GroupReady) -> None:
        started = time.perf_counter_ns()
        job = ready.job
        reading = True
        try:
            state = self._state(job.handoff)
            try:
                step = state.advance("write", job.generation)
                self._remove(job.handoff, step)
                if not step.accepted:
                    return
                writer, nbytes = self._reserve(job, ready.group, state.published)
                try:
                    self._gather(writer, job, ready.group, ready.ticket)
                finally:
                    reading = False
                    in_time = ready.ticket.read_done()
                if not in_time:
                    writer.abandon()
                    raise _Failed("late", "the engine's step went on before its blocks were read")
                writer.publish(self._settings.publish_timeout_s)
                state.advance("published", job.generation)
                self._counters.add("parts_sent")
                self._counters.add("bytes_sent", nbytes)
                if ready.last and job.final:
                    self._commit(job, state)
            except _Failed as failure:
                self._roll_back(job, state, failure.cause, str(failure))
            except _core.Error as error:
                self._roll_back(job, state, error.code, str(error))
        finally:
            if reading:
                ready.ticket.read_done()
            if ready.last and job.final:
                self._board.post()
                ready.ticket.commit_done()
            self._counters.add("send_us", (time.perf_counter_ns() - started) // 1000)

    def _state(self, handoff: str) -> "_core.KvHandoff":
        state = self._states.get(handoff)
        if state is None:
            state = self._states[handoff] = _core.KvHandoff()
            while len(self._states) > HANDOFFS_MAX:
                self._states.popitem(last=False)
        return state

    def _client(self) -> "_core.Client":
        client = self._attachment.client
        if client is None or not client.attached:  # a request would wait for the daemon
            raise _Failed("unavailable", "no daemon serves the arena")
        return client

    def _keys(self, handoff: str) -> "_core.KvKeys":
        return _core.KvKeys(self._settings.tenant, handoff)

    def _reserve(self, job: SaveJob, group: int, sequence: int) -> "tuple[_core.Writer, int]":
        assert self._cache is not None
        first_layer, layers = self._cache.groups[group]
        blocks = self._cache.native_count(len(job.block_ids))
        first_block = self._cache.native_count(job.first_block)
        shape = self._cache.native.part_shape(layers, blocks)
        writer = self._client().reserve(
            self._keys(job.handoff).part(job.generation, self._rank, sequence),
            [("kv", "uint8", shape)],
            {
                "layers": [first_layer, layers],
                "blocks": [first_block, blocks],
                "writer": [self._rank, self._ranks],
            },
            timeout=self._settings.reserve_timeout_s,
            write_timeout=self._settings.write_timeout_s,
            soft_pin=self._settings.handoff_ttl_s,
        )
        if writer is None:
            raise _Failed("duplicate", "another writer used this hand-off's name")
        nbytes = 1
        for size in shape:
            nbytes *= size
        return writer, nbytes

    def _gather(self, writer: "_core.Writer", job: SaveJob, group: int, ticket: StepTicket) -> None:
        assert self._cache is not None
        if ticket.expired:
            return
        first_layer, layers = self._cache.groups[group]
        self._cache.native.gather(
            writer,
            first_layer=first_layer,
            layers=layers,
            block_ids=self._cache.native_ids(job.block_ids),
        )

    def _commit(self, job: SaveJob, state: "_core.KvHandoff") -> None:
        assert self._description is not None
        step = state.advance("finish", job.generation)
        if not step.publish_commit:
            return
        descriptor = self._description.of(
            rank=self._rank, tokens=job.tokens, digest=job.digest, parts=state.published
        )
        encoded = descriptor.encode()
        outcome = self._client().put(
            self._keys(job.handoff).commit(job.generation, self._rank),
            [("descriptor", "uint8", (len(encoded),), encoded)],
            {"parts": [state.published], "tokens": [job.tokens]},
            timeout=self._settings.publish_timeout_s,
            soft_pin=self._settings.handoff_ttl_s,
        )
        if outcome != "published":
            raise _Failed("duplicate", "another writer used this hand-off's name")
        state.advance("committed", job.generation)
        self._counters.add("commits")

    def _roll_back(self, job: SaveJob, state: "_core.KvHandoff", cause: str, text: str) -> None:
        step = state.advance("fail", job.generation)
        if step.accepted:
            self._counters.add("send_failures")
            self._board.failed(job.handoff, text)
            if cause not in self._said:
                self._said.add(cause)
                logger.error(
                    "sluice: hand-off %s was not written (%s): %s; further failures of this kind "
                    "are only counted",
                    job.handoff,
                    cause,
                    text,
                )
        self._remove(job.handoff, step)

    def _remove(self, handoff: str, step: "_core.KvStep") -> None:
        """What the step asks to be removed."""
        generation = step.remove
        client = self._attachment.client
        if generation is None or client is None or not client.attached:
            return
        try:
            client.invalidate(
                self._keys(handoff).prefix_of(generation, self._rank),
                self._settings.publish_timeout_s,
            )
        except _core.Error as error:
            logger.debug("sluice: %s stays until its lifetime ends: %s", handoff, error)
