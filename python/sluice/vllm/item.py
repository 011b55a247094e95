"""One feature of the arena as the consumer's scheduler sees it: leased, checked, promised.

Invariant: an item that is READY holds a lease, its shape is known and its bytes were verified. The
           lease ends when the last holder lets go, and never while a check still reads the bytes.
Threads:   the scheduler's.
"""

import enum
from concurrent.futures import Future

from sluice import _core
from sluice.vllm.counters import Counters
from sluice.vllm.metadata import DescriptorTuple
from sluice.vllm.verify_pool import VerifyPool


class ItemState(enum.Enum):
    CHECKING = "checking"
    READY = "ready"
    REFUSED = "refused"


class Item:
    def __init__(
        self,
        identifier: str,
        lease: "_core.Lease",
        pool: VerifyPool,
        counters: Counters,
        widths: "WidthRule",
    ) -> None:
        """Raises _core.Error when the object's header cannot be read."""
        self.identifier = identifier
        self.holders: set[object] = set()
        self.descriptor: DescriptorTuple = lease.descriptor.to_tuple()
        self.rows, self.width, self.dtype, self.modality = 0, 0, "", ""
        self.corrupt = False
        self.discarded = False  # taken out of the arena because it is damaged
        self._lease = lease
        self._pool = pool
        self._counters = counters
        self._check: Future[None] | None = None
        self._state = self._begin(widths)

    @property
    def boot(self) -> int:
        return self.descriptor[0]

    @property
    def nbytes(self) -> int:
        return self.descriptor[5]

    def state(self) -> ItemState:
        """Takes notice of a check that ended."""
        if self._state is ItemState.CHECKING and self._check is not None and self._check.done():
            error = self._check.exception()
            self._state = ItemState.READY if error is None else ItemState.REFUSED
            self.corrupt = isinstance(error, _core.Corrupt)
            if self.corrupt:
                self._counters.add("corrupt")
        return self._state

    def fits(self, rows: int, modality: str) -> bool:
        """Is this the feature of an item with so many rows?"""
        return self.rows == rows and self.modality in ("", modality)

    def close(self) -> None:
        """Ends the lease; after the check, if one runs."""
        if self._check is not None and not self._check.done():
            self._pool.then(self._check, self._lease)
        else:
            self._lease.release()

    def _begin(self, widths: "WidthRule") -> ItemState:
        tensors = self._lease.tensors
        if len(tensors) != 1 or len(tensors[0].shape) != 2:
            return ItemState.REFUSED
        self.rows, self.width = tensors[0].shape
        self.dtype = tensors[0].dtype
        modality = self._lease.attributes.get("modality", "")
        self.modality = modality if isinstance(modality, str) else ""
        if not widths.accepts(self.width, self.modality) or self.dtype != widths.dtype:
            return ItemState.REFUSED
        if self._lease.verified and not self._pool.always:
            return ItemState.READY
        if not self._lease.has_checksums:
            self._counters.add("unchecked")
            return ItemState.READY
        self._check = self._pool.submit(self._lease)
        return ItemState.CHECKING


class WidthRule:
    """How wide a feature of this engine's model is: the embedding, once per level.

    `levels` is 1 + the DeepStack levels where the model's configuration names them; None where it
    does not. Without it, and for audio, any multiple of the embedding's width is accepted.
    """

    def __init__(self, embedding: int, levels: int | None, dtype: str) -> None:
        self.embedding = embedding
        self.levels = levels
        self.dtype = dtype

    def accepts(self, width: int, modality: str) -> bool:
        if self.levels is not None and modality != "audio":
            return width == self.embedding * self.levels
        return width > 0 and width % self.embedding == 0

    @property
    def widest(self) -> int:
        return self.embedding * (self.levels or 1)
