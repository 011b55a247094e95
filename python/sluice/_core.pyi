"""The native module: one class per C++ class of `include/sluice/client.h`, same names, same rules.

Every method that moves bytes or waits releases the GIL. Timeouts are seconds. Errors are
`sluice.Error` subclasses.
"""

import builtins
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, TypedDict

Presence = Literal["absent", "pending", "present"]
Outcome = Literal["published", "duplicate", "divergent_duplicate"]
Verify = Literal["once", "always", "never"]
AttributeValue = str | list[int] | list[float]
AttributeInput = str | int | float | list[int] | list[float] | tuple[int, ...] | tuple[float, ...]

class Error(Exception):
    """Base of all Sluice errors. `code` and `drop` are the names of `include/sluice/error.h`."""

    code: str
    drop: str

class InvalidArgument(Error, ValueError): ...
class NotFound(Error, KeyError): ...
class Pending(Error): ...
class Conflict(Error): ...
class OutOfSpace(Error): ...
class TimedOut(Error, TimeoutError): ...
class Unavailable(Error, ConnectionError): ...
class Detached(Error): ...
class Corrupt(Error): ...
class Expired(Error): ...
class Limit(Error): ...
class PermissionDenied(Error, PermissionError): ...
class VersionMismatch(Error): ...
class Unsupported(Error, NotImplementedError): ...
class SystemFailure(Error, OSError): ...
class InternalError(Error): ...

class ObjectInfo(TypedDict):
    """One object of `Client.list`. Sizes in bytes, times in nanoseconds of CLOCK_MONOTONIC."""

    key: str
    object_bytes: int
    extent_bytes: int
    created_ns: int
    checksums: bool
    hard_pinned: bool
    soft_pinned_until_ns: int
    presence: Presence

class ClientInfo(TypedDict):
    """One attached process, and what it counted."""

    id: int
    pid: int
    alive: bool
    label: str
    leases: int
    reserved_bytes: int
    lookups: int
    hits: int
    gets: int
    get_bytes: int
    puts: int
    put_bytes: int
    corrupt: int
    board: str

class KindStats(TypedDict):
    objects: int
    object_bytes: int
    puts: int
    duplicates: int
    evictions: int
    removals: int

class ArenaStats(TypedDict):
    """Counters of the arena since it was made. `epoch` counts the daemon's starts."""

    boot: int
    epoch: int
    daemon_alive: bool
    daemon_pid: int
    arena_bytes: int
    used_bytes: int
    reserved_bytes: int
    objects: int
    objects_max: int
    clients: int
    leases: int
    published_total: int
    duplicates_total: int
    divergent_duplicates_total: int
    conflicts_total: int
    evictions_total: int
    removals_total: int
    expired_total: int
    abandoned_total: int
    out_of_space_total: int
    reclaimed_of_dead_total: int
    refused_total: int
    index_bytes: int
    record_bytes: int
    kinds: dict[str, KindStats]

class ObjectKey:
    def __init__(
        self,
        id: str,
        *,
        model: str,
        revision: str,
        encoder: str,
        dtype: str,
        prefix: str = "",
        tenant: str = "default",
        kind: str = "encoder_output",
        layout: str = "replicated",
        parallel: str = "",
    ) -> None: ...
    @staticmethod
    def parse(text: str) -> ObjectKey: ...
    @staticmethod
    def from_text(text_or_name: str) -> ObjectKey: ...
    def with_id(self, id: str) -> ObjectKey: ...
    @property
    def text(self) -> str: ...
    @property
    def prefix_text(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def fields(self) -> dict[str, str]:
        """All ten fields by name, not escaped."""

    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

class TensorInfo:
    """One tensor of an object."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def data_offset(self) -> int: ...

class Array:
    """One tensor's memory, offered without a copy through DLPack and the buffer protocol.

    bfloat16 and float8 have no format in the buffer protocol and appear there as bytes; DLPack
    has them.
    """

    def __dlpack__(
        self,
        *,
        stream: object | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def readonly(self) -> bool: ...

class Device:
    """One memory kind: how bytes move between it and the arena.

    A build for CUDA also has `Device.cuda(ordinal)`.
    """

    @staticmethod
    def host() -> Device: ...
    @property
    def name(self) -> str: ...
    def synchronise(self, stream: int = 0) -> None: ...

class Copy:
    """A copy that may still run; dropping it waits for its end."""

    @property
    def done(self) -> bool: ...
    def wait(self) -> None: ...

class Descriptor:
    """Where an object lies: plain integers, picklable."""

    def __init__(
        self, boot: int, slot: int, generation: int, segment: int, offset: int, object_bytes: int
    ) -> None: ...
    @property
    def boot(self) -> int: ...
    @property
    def slot(self) -> int: ...
    @property
    def generation(self) -> int: ...
    @property
    def segment(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def object_bytes(self) -> int: ...
    def to_tuple(self) -> tuple[int, int, int, int, int, int]: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

class Lease:
    """A view of one published object; a tensor made from it keeps it alive."""

    @property
    def tensors(self) -> list[TensorInfo]: ...
    @property
    def attributes(self) -> dict[str, AttributeValue]: ...
    @property
    def descriptor(self) -> Descriptor: ...
    @property
    def verified(self) -> bool: ...
    @property
    def has_checksums(self) -> bool: ...
    @property
    def nbytes(self) -> int: ...
    def verify(self, mode: Verify = "once") -> None: ...
    def array(self, name: str | None = None, *, shared: bool = False) -> Array:
        """One tensor, no copy. `shared=False`: the process-private mapping, writable;
        `shared=True`: read-only.
        """

    def read(self, offset: int, nbytes: int) -> bytes:
        """A range of the object's bytes, verified by chunk."""

    def copy_to(self, name: str | None, device: Device, address: int, stream: int = 0) -> Copy:
        """Starts a copy of one tensor to a device; the lease lives until it ended."""

    def release(self) -> None:
        """Ends the lease now; refused (`InvalidArgument`) while tensors made from it are alive."""

    @property
    def live_views(self) -> int: ...
    def __enter__(self) -> Lease: ...
    def __exit__(self, *args: object) -> None:
        """Gives the handle up; the lease ends with the last tensor made from it."""

class Writer:
    """A reservation being written. Dropped without publish() it is abandoned.

    Its tensors are the arena's memory until publish() or abandon(); after that they keep their
    content as private memory, and writing to them reaches nobody.
    """

    @property
    def tensors(self) -> list[TensorInfo]: ...
    def array(self, name: str | None = None) -> Array:
        """One tensor of the reservation, writable, no copy."""

    def write(self, name: str | None, source: Any) -> None:
        """Copies a C-contiguous host buffer, or the memory at an integer address, in."""

    def copy_from(self, name: str | None, device: Device, address: int, stream: int = 0) -> None:
        """Starts a copy of one tensor from a device; publish() waits for it."""

    def publish(self, timeout: float | None = None) -> Outcome:
        """`timeout`: for the daemon's answer; None: that of reserve()."""

    def abandon(self) -> None: ...
    @property
    def open(self) -> bool: ...
    @property
    def live_views(self) -> int: ...
    def __enter__(self) -> Writer: ...
    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Publishes on a clean exit, abandons on an exception."""

class Client:
    @staticmethod
    def attach(
        arena: str = "default",
        *,
        directory: str = "",
        label: str = "",
        timeout: float = 2.0,
        verify: Verify = "once",
        grant_ahead_bytes: int = 67108864,
    ) -> Client: ...
    @property
    def attached(self) -> bool: ...
    @property
    def boot(self) -> int: ...
    @property
    def id(self) -> int: ...
    @property
    def directory(self) -> str: ...
    def close(self) -> None: ...
    def reattach(self, timeout: float = 2.0) -> None:
        """Attaches to what serves the arena's folder now; requests do so by themselves."""

    def lookup(self, key: ObjectKey) -> Presence: ...
    def lookup_many(self, keys: Sequence[ObjectKey]) -> list[Presence]: ...
    def acquire(self, key: ObjectKey) -> Lease:
        """A lease without verification."""

    def get(self, key: ObjectKey, verify: Verify | None = None) -> Lease: ...
    def get_dlpack(
        self, key: ObjectKey, name: str | None = None, verify: Verify | None = None
    ) -> Any:
        """`get(key, verify).array(name)` as an unversioned DLPack capsule, in one call."""

    def adopt(self, descriptor: Descriptor) -> Lease: ...
    def wait(self, keys: Sequence[ObjectKey], timeout: float) -> list[Presence]: ...
    def put(
        self,
        key: ObjectKey,
        tensors: Sequence[tuple[str, str, tuple[int, ...], Any]],
        attributes: dict[str, AttributeInput] | None = None,
        *,
        timeout: float = 5.0,
        checksums: bool = True,
        soft_pin: float | None = None,
        hard_pin: bool = False,
    ) -> Outcome:
        """`tensors`: (name, dtype, shape, C-contiguous host buffer or integer address)."""

    def reserve(
        self,
        key: ObjectKey,
        specs: Sequence[tuple[str, str, tuple[int, ...]]],
        attributes: dict[str, AttributeInput] | None = None,
        *,
        timeout: float = 5.0,
        write_timeout: float = 60.0,
        checksums: bool = True,
        soft_pin: float | None = None,
        hard_pin: bool = False,
    ) -> Writer | None:
        """None: the same object is published already. Raises Pending while another live writer
        holds the key.
        """

    def remove(self, key: ObjectKey, timeout: float = 5.0) -> None: ...
    def invalidate(self, prefix: str, timeout: float = 5.0) -> int: ...
    def pin(self, key: ObjectKey, soft_ttl: float | None = None) -> None:
        """Seconds to keep the object; None: until unpinned."""

    def unpin(self, key: ObjectKey) -> None: ...
    def list(self, prefix: str = "", limit: int = 0) -> list[ObjectInfo]: ...
    def stats(self) -> ArenaStats: ...
    def clients(self) -> builtins.list[ClientInfo]:
        """Attached processes, their counters and boards."""

    def post(self, text: str) -> None: ...
    def __enter__(self) -> Client: ...
    def __exit__(self, *args: object) -> None: ...

def default_directory(arena: str = "default") -> str: ...

# --- the hand-off of KV ---

HandoffEvent = Literal["write", "published", "finish", "committed", "fail", "cancel", "release"]
HandoffPhase = Literal["prepared", "writing", "committing", "committed", "rolled_back", "released"]

class KvKeys:
    """The keys of one hand-off."""

    def __init__(self, tenant: str, handoff: str) -> None: ...
    @staticmethod
    def is_handoff_id(text: str) -> bool:
        """32 lower-case hexadecimal digits?"""

    @property
    def prefix(self) -> str:
        """What all keys of the hand-off begin with."""

    def prefix_of(self, generation: int, rank: int) -> str: ...
    def part(self, generation: int, rank: int, sequence: int) -> ObjectKey: ...
    def commit(self, generation: int, rank: int) -> ObjectKey: ...

class KvDescriptor:
    """What a hand-off's commit says of itself."""

    def __init__(
        self,
        *,
        engine: str = "",
        model: str = "",
        revision: str = "",
        dtype: str = "",
        layout: str = "",
        digest: str = "",
        tokens: int = 0,
        layers: int = 0,
        heads_total: int = 0,
        planes: int = 1,
        block_tokens: int = 0,
        entry_bytes: int = 0,
        rank: int = 0,
        ranks: int = 1,
        parts: int = 0,
    ) -> None: ...
    @staticmethod
    def parse(data: bytes) -> KvDescriptor: ...
    def encode(self) -> bytes: ...
    def check_same(self, expected: KvDescriptor) -> None:
        """Raises Conflict naming the first field that differs, with both values."""

    @property
    def heads(self) -> int:
        """That the writing rank holds."""

    def share(self, rank: int, ranks: int) -> tuple[int, int, int]:
        """Which of the writer's heads a reading rank takes: (first in the part, first in the
        reader's cache, how many).
        """

    @property
    def tokens(self) -> int: ...
    @property
    def digest(self) -> str: ...
    @property
    def rank(self) -> int: ...
    @property
    def ranks(self) -> int: ...
    @property
    def parts(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

class KvStep:
    """The outcome of one event."""

    @property
    def accepted(self) -> bool: ...
    @property
    def publish_commit(self) -> bool: ...
    @property
    def remove(self) -> int | None:
        """The generation whose objects are to be removed."""

class KvHandoff:
    """The life of one hand-off on the side that writes it, one rank."""

    def __init__(self) -> None: ...
    def advance(self, event: HandoffEvent, generation: int) -> KvStep: ...
    @property
    def phase(self) -> HandoffPhase: ...
    @property
    def generation(self) -> int: ...
    @property
    def published(self) -> int: ...

class KvCache:
    """An engine's paged cache, by address; the caller keeps its memory alive."""

    def __init__(
        self,
        layers: Sequence[tuple[int, int, int, int, int, int, int]],
        *,
        planes: int,
        heads: int,
        block_tokens: int,
        entry_bytes: int,
    ) -> None:
        """`layers`: (address, bytes, blocks, plane stride, block stride, head stride, token
        stride), strides in bytes.
        """

    @property
    def layers(self) -> int: ...
    def part_shape(self, layers: int, blocks: int) -> tuple[int, ...]:
        """Of a part's only tensor, dtype uint8."""

    def gather(
        self, writer: Writer, *, first_layer: int, layers: int, block_ids: Sequence[int]
    ) -> None:
        """Copies blocks into a reservation of one tensor, and hashes them on the way.

        Must be the last write: what is written to it later does not match its digests.
        """

    def scatter(
        self,
        lease: Lease,
        *,
        first_layer: int,
        layers: int,
        block_ids: Sequence[int],
        part_blocks: int,
        part_first_block: int,
        part_heads: int,
        heads: tuple[int, int, int],
        verify: Verify = "once",
    ) -> None:
        """Copies a part's blocks from `part_first_block` on into the cache.

        Verifies the whole part in the same pass; raises Corrupt. Blocks it has written by then hold
        nothing of use.
        """
