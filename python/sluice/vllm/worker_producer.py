"""Producer, worker side: copies encoder outputs into the arena and has them published.

Invariant: when the hook returns, the feature is reserved under its key, so that every process sees
           it as `pending`, and its bytes are in the arena; checksums and publish follow on the save
           thread. One rank writes a replicated output.
Threads:   hooks on the worker's engine thread; finish() on the save thread.
Failure:   no exception leaves a hook. A failed save is counted, logged once per cause, and its
           reservation given up, so that nobody waits for it.
"""

import threading
import time

import torch
from vllm.logger import init_logger

from sluice import _core
from sluice.vllm import tensors
from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters
from sluice.vllm.key_template import KeyTemplate
from sluice.vllm.mailbox import Board
from sluice.vllm.metadata import SaveSpec
from sluice.vllm.pending_save import PendingSave
from sluice.vllm.save_queue import SaveQueue
from sluice.vllm.settings import Settings

logger = init_logger("vllm.sluice.save")

EncoderCache = dict[str, torch.Tensor]


class WorkerProducer:
    def __init__(
        self,
        settings: Settings,
        attachment: Attachment,
        keys: KeyTemplate,
        board: Board,
        counters: Counters,
        writes: bool,
    ) -> None:
        self._settings = settings
        self._attachment = attachment
        self._keys = keys
        self._board = board
        self._counters = counters
        self._writes = writes
        self._said: set[str] = set()
        self._lock = threading.Lock()
        self._queue = SaveQueue(settings.save_queue_items_max, self.finish)

    def republish(self, encoder_cache: EncoderCache, wanted: dict[str, SaveSpec]) -> None:
        """Stores what the arena lacks and the engine's cache, or an earlier arena, still holds."""
        client = self._attachment.client
        if not self._writes or client is None:
            return
        for identifier, spec in wanted.items():
            try:
                if client.lookup(self._keys.key(identifier)) != "absent":
                    continue
            except _core.Error as error:
                self._failed(identifier, error.code, str(error))
                continue
            tensor = encoder_cache.get(identifier)
            if tensor is not None:
                self.save(identifier, tensor, spec, republished=True)
            elif not self._carry_over(identifier, spec):
                self._counters.add("republish_missing")

    def _carry_over(self, identifier: str, spec: SaveSpec) -> bool:
        """Stores what an arena had that is gone, but still mapped here: vLLM did not encode it."""
        for client in self._attachment.earlier():
            try:
                with client.get(self._keys.key(identifier)) as lease:
                    self.save(identifier, tensors.over(lease), spec, republished=True)
                    return True
            except _core.Error:
                continue
        return False

    def save(
        self, identifier: str, tensor: torch.Tensor, spec: SaveSpec, republished: bool = False
    ) -> None:
        """`tensor`: (rows, width), the engine's dtype, any device; copied before this returns."""
        if not self._writes:
            return
        client = self._attachment.client
        if client is None or not client.attached:  # a request would wait for the daemon
            self._failed(identifier, "unavailable", "no daemon serves the arena")
            return
        started = time.perf_counter_ns()
        try:
            self._save(client, identifier, tensor, spec, republished)
        except _core.Pending:
            self._counters.add("save_pending_elsewhere")
        except _core.Error as error:
            self._failed(identifier, error.code, str(error))
        except Exception as error:
            self._failed(identifier, type(error).__name__, str(error))
        self._counters.add("save_us", (time.perf_counter_ns() - started) // 1000)

    def finish(self, save: PendingSave) -> None:
        """Publishes one reservation, or gives it up."""
        try:
            if self._settings.scan_nonfinite and not self._is_finite(save):
                save.writer.abandon()
                self._counters.add("save_nonfinite")
                self._failed(save.identifier, "nonfinite", "a value is not finite")
                return
            outcome = save.writer.publish(self._settings.publish_timeout_s)
        except _core.Error as error:
            self._failed(save.identifier, error.code, str(error))
        except Exception as error:
            self._failed(save.identifier, type(error).__name__, str(error))
        else:
            self._count(save, outcome)
        finally:
            self._board.post()

    def close(self) -> None:
        self._queue.close(self._settings.write_timeout_s)

    def _save(
        self,
        client: "_core.Client",
        identifier: str,
        tensor: torch.Tensor,
        spec: SaveSpec,
        republished: bool,
    ) -> None:
        shape = tuple(tensor.shape)
        if len(shape) != 2 or shape[0] != spec.rows:
            raise ValueError(f"the encoder made {shape} for {spec.rows} rows")
        if tensors.dtype_name(tensor.dtype) != self._keys.dtype:
            raise ValueError(f"the encoder made {tensor.dtype}, the key says {self._keys.dtype}")
        pinned = spec.modality in self._settings.soft_pin_modalities
        writer = client.reserve(
            self._keys.key(identifier),
            [("tensor", self._keys.dtype, shape)],
            dict(spec.attributes),
            timeout=self._settings.reserve_timeout_s,
            write_timeout=self._settings.write_timeout_s,
            soft_pin=self._settings.soft_pin_ttl_s if pinned else None,
        )
        if writer is None:
            self._counters.add("save_duplicates")
            return
        try:
            nbytes = self._copy(writer, tensor)
        except BaseException:
            writer.abandon()
            raise
        save = PendingSave(identifier, writer, nbytes, republished)
        if not self._queue.put(save):
            self._counters.add("save_inline")
            self.finish(save)

    @staticmethod
    def _copy(writer: "_core.Writer", tensor: torch.Tensor) -> int:
        host = tensor.detach().to("cpu").contiguous()  # neither copies what is there already
        writer.write(None, tensors.host_bytes(host))
        return host.nbytes

    @staticmethod
    def _is_finite(save: PendingSave) -> bool:
        stored = tensors.over(save.writer)
        return bool(torch.isfinite(stored).all())

    def _count(self, save: PendingSave, outcome: str) -> None:
        if outcome == "published":
            self._counters.add("saves")
            self._counters.add("save_bytes", save.nbytes)
            if save.republished:
                self._counters.add("republished")
        elif outcome == "duplicate":
            self._counters.add("save_duplicates")
        else:
            self._counters.add("save_divergent")

    def _failed(self, identifier: str, cause: str, text: str) -> None:
        self._counters.add("save_failures")
        self._board.complain(f"save of {identifier[:16]}: {text}")
        with self._lock:
            first = cause not in self._said
            self._said.add(cause)
        if first:
            logger.error(
                "sluice: the feature of %.16s was not stored (%s): %s; further failures of this "
                "kind are only counted",
                identifier,
                cause,
                text,
            )
