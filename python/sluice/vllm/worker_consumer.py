"""Consumer, worker side: maps promised features into the engine's encoder cache.

Invariant: a lease lives exactly as long as its mapped tensor is the value in the encoder cache; it
           is looked after at the start of every hook. On a host the tensor is the arena's memory
           (this process's private view); on a device it is a copy, and the lease ends with it.
Threads:   the worker's engine thread.
Failure:   no exception leaves a hook. A load that cannot be adopted by descriptor is tried by key;
           one that fails altogether is counted, complained of and not acknowledged.
"""

import time
from dataclasses import dataclass

import torch
from vllm.logger import init_logger

from sluice import _core
from sluice.vllm import tensors
from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters
from sluice.vllm.key_template import KeyTemplate
from sluice.vllm.mailbox import Board
from sluice.vllm.metadata import DescriptorTuple, LoadSpec
from sluice.vllm.pin_budget import PinBudget

logger = init_logger("vllm.sluice.worker")

EncoderCache = dict[str, torch.Tensor]


@dataclass(slots=True)
class _Loaded:
    descriptor: DescriptorTuple
    tensor: torch.Tensor  # the value in the encoder cache while this entry lives
    pins: int  # bytes of the arena it keeps from being evicted; 0 for a copy


class WorkerConsumer:
    def __init__(
        self,
        attachment: Attachment,
        keys: KeyTemplate,
        board: Board,
        counters: Counters,
        pins: PinBudget,
        device: torch.device,
    ) -> None:
        self._attachment = attachment
        self._keys = keys
        self._board = board
        self._counters = counters
        self._pins = pins
        self._device = device
        self._loaded: dict[str, _Loaded] = {}  # oldest first
        self._acknowledged: set[int] = set()

    def drop_stale(self, encoder_cache: EncoderCache) -> None:
        """Forgets entries that the engine has dropped or replaced; their leases end here."""
        for identifier, loaded in list(self._loaded.items()):
            if encoder_cache.get(identifier) is not loaded.tensor:
                del self._loaded[identifier]

    def load(self, encoder_cache: EncoderCache, loads: dict[str, LoadSpec]) -> None:
        started = time.perf_counter_ns()
        for identifier, spec in loads.items():
            if self._load_one(encoder_cache, identifier, spec):
                self._acknowledged.add(spec.transfer)
                self._board.acknowledge(spec.transfer)
        if loads:
            self._counters.add("load_us", (time.perf_counter_ns() - started) // 1000)

    def relieve(self, encoder_cache: EncoderCache, busy: dict[str, LoadSpec]) -> None:
        """Copies idle entries into the engine's memory when they pin too much of the arena."""
        excess = self._pins.excess(sum(loaded.pins for loaded in self._loaded.values()))
        for identifier in list(self._loaded):
            if excess <= 0:
                return
            pinned = self._loaded[identifier].pins
            if pinned and identifier not in busy:
                self._copy_out(encoder_cache, identifier)
                excess -= pinned

    def take_acknowledged(self) -> set[int]:
        taken, self._acknowledged = self._acknowledged, set()
        return taken

    @property
    def pinned_entries(self) -> int:
        return sum(1 for loaded in self._loaded.values() if loaded.pins)

    def _load_one(self, encoder_cache: EncoderCache, identifier: str, spec: LoadSpec) -> bool:
        loaded = self._loaded.get(identifier)
        if loaded is not None and loaded.descriptor == spec.descriptor:
            return True
        try:
            self._map(encoder_cache, identifier, spec)
        except Exception as error:
            self._counters.add("load_failures")
            self._board.complain(f"load of {identifier[:16]}: {error}")
            logger.exception("sluice: load of %.16s", identifier)
            return False
        return True

    def _map(self, encoder_cache: EncoderCache, identifier: str, spec: LoadSpec) -> None:
        lease = self._lease(encoder_cache, identifier, spec)
        info = lease.tensors[0]
        if (info.shape, info.dtype) != ((spec.rows, spec.width), spec.dtype):
            raise RuntimeError(f"found {info.dtype} {info.shape}, promised {spec}")
        tensor = tensors.over(lease)
        pins = info.nbytes
        if self._device.type != "cpu":
            tensor, pins = tensor.to(self._device), 0  # waits for the copy, then the lease ends
        encoder_cache[identifier] = tensor
        self._loaded.pop(identifier, None)
        self._loaded[identifier] = _Loaded(spec.descriptor, tensor, pins)
        self._counters.add("loads")
        self._counters.add("load_bytes", info.nbytes)

    def _lease(self, encoder_cache: EncoderCache, identifier: str, spec: LoadSpec) -> "_core.Lease":
        client = self._attachment.of_boot(spec.descriptor[0])
        if client is None:
            return self._lease_by_key(identifier)
        descriptor = _core.Descriptor(*spec.descriptor)
        try:
            return client.adopt(descriptor)
        except _core.Limit:
            for other in list(self._loaded):  # no lease left: make room from our own
                self._copy_out(encoder_cache, other)
            return client.adopt(descriptor)
        except _core.Error as error:
            logger.warning("sluice: adopt %.16s: %s; trying by key", identifier, error)
            return self._lease_by_key(identifier)

    def _lease_by_key(self, identifier: str) -> "_core.Lease":
        client = self._attachment.client
        if client is None:
            raise RuntimeError("this worker is not attached to the arena")
        self._counters.add("load_retries")
        return client.get(self._keys.key(identifier))

    def _copy_out(self, encoder_cache: EncoderCache, identifier: str) -> None:
        loaded = self._loaded[identifier]
        if loaded.pins == 0 or encoder_cache.get(identifier) is not loaded.tensor:
            return
        self._counters.add("copied_out")
        self._counters.add("copied_out_bytes", loaded.pins)
        copy = loaded.tensor.clone()
        encoder_cache[identifier] = copy
        self._loaded[identifier] = _Loaded(loaded.descriptor, copy, 0)
