"""One attachment of this process to an arena."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _core
from ._core import ObjectKey
from .bundle import Bundle
from .errors import InvalidArgument
from .key import KeyLike, key_parser
from .parts import Part, parts_of
from .reservation import Reservation
from .specs import named_specs

if TYPE_CHECKING:
    from types import TracebackType

    import numpy
    import torch

    from ._core import ArenaStats, AttributeInput, ClientInfo, ObjectInfo, Outcome, Presence, Verify
    from .specs import SpecLike, Tensor

    NumpyArray = numpy.ndarray[Any, Any]

Pin = float | Literal["hard"] | None


def connect(
    arena: str = "default",
    *,
    directory: str | os.PathLike[str] | None = None,
    timeout: float = 2.0,
    verify: Verify = "once",
    label: str | None = None,
) -> Client:
    """Attaches this process to an arena of this machine.

    arena: its name. directory: its folder, which wins over the name. timeout: seconds to wait for
    the daemon, 0 to 600. verify: 'once' checks every byte of an object at its first get in this
    process, 'always' at each get, 'never' not at all. label: what `sluice top` shows for this
    process, at most 63 bytes.

    Raises Unavailable when no daemon serves the arena, PermissionDenied, VersionMismatch, or
    TimedOut.
    """
    return Client(
        _core.Client.attach(
            arena,
            directory="" if directory is None else os.fspath(directory),
            label="python" if label is None else label,
            timeout=timeout,
            verify=verify,
        )
    )


class Client:
    """Puts tensors into an arena and gets them out. May be used from any thread.

    Keys are `ObjectKey`s or text (see `sluice.key`). Timeouts are seconds, 0 to 600; a daemon that
    the machine does not run in time has a second more to answer in. Reading goes
    on while the daemon is down; writing raises Unavailable then, and attaches again by itself
    when the daemon is back. In the child of a fork every call raises Detached: connect anew
    there.
    """

    def __init__(self, core: _core.Client) -> None:
        self._core = core
        self._parse = key_parser()
        self._from_capsule: Callable[[Any], torch.Tensor] | None = None

    # --- attachment ---

    @property
    def core(self) -> _core.Client:
        """The native client, for connectors."""
        return self._core

    @property
    def attached(self) -> bool:
        """False after close(), in a fork's child, and while no daemon runs."""
        return self._core.attached

    @property
    def directory(self) -> str:
        """The arena's folder."""
        return self._core.directory

    def close(self) -> None:
        """Detaches. Tensors already got stay valid. Every later call raises Detached; closing
        twice is fine.
        """
        self._core.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "attached" if self.attached else "not attached"
        return f"<sluice.Client of {self.directory!r}, {state}>"

    # --- reading ---

    @overload
    def get(
        self,
        key: KeyLike,
        *,
        as_: Literal["torch"] = "torch",
        name: str | None = None,
        verify: Verify | None = None,
    ) -> torch.Tensor: ...
    @overload
    def get(
        self,
        key: KeyLike,
        *,
        as_: Literal["numpy"],
        name: str | None = None,
        verify: Verify | None = None,
    ) -> NumpyArray: ...
    def get(
        self,
        key: KeyLike,
        *,
        as_: Literal["torch", "numpy"] = "torch",
        name: str | None = None,
        verify: Verify | None = None,
    ) -> torch.Tensor | NumpyArray:
        """One tensor of an object, on the CPU, C-contiguous, with the dtype and shape it was put
        with. No copy.

        The object stays in the arena while the tensor lives. The tensor lies in this process's
        private view: a write to it is seen by this process only, for no longer than the tensor
        lives.

        as_: 'torch' or 'numpy' (bfloat16 and float8 in numpy need the package ml_dtypes). name:
        which tensor of a bundle; may be left out when there is one. verify: instead of the
        client's own setting.

        Raises NotFound, Pending while a writer holds the key, Corrupt when bytes do not match
        their checksum, InvalidArgument for an unknown name, Limit when this process holds too
        many objects, Unsupported, Detached.
        """
        if type(key) is not ObjectKey:
            key = self._key(key)
        if as_ == "torch":
            from_capsule = self._from_capsule or self._load_torch()
            return from_capsule(self._core.get_dlpack(key, name, verify))
        as_array = _numpy_reader(as_)
        return as_array(self._core.get(key, verify).array(name))

    @overload
    def get_bundle(
        self, key: KeyLike, *, as_: Literal["torch"] = "torch", verify: Verify | None = None
    ) -> Bundle[torch.Tensor]: ...
    @overload
    def get_bundle(
        self, key: KeyLike, *, as_: Literal["numpy"], verify: Verify | None = None
    ) -> Bundle[NumpyArray]: ...
    def get_bundle(
        self,
        key: KeyLike,
        *,
        as_: Literal["torch", "numpy"] = "torch",
        verify: Verify | None = None,
    ) -> Bundle[torch.Tensor] | Bundle[NumpyArray]:
        """All tensors of an object, with its attributes, under one lease. Arguments and errors as
        for `get`.
        """
        if as_ == "torch":
            from .torch_support import as_tensor

            return Bundle(self._core.get(self._key(key), verify), as_tensor)
        as_array = _numpy_reader(as_)
        return Bundle(self._core.get(self._key(key), verify), as_array)

    def lookup(self, key: KeyLike) -> Presence:
        """'absent', 'pending' (a live writer holds a reservation) or 'present'. A hint: it takes
        no lease.
        """
        return self._core.lookup(self._key(key))

    def lookup_many(self, keys: Iterable[KeyLike]) -> list[Presence]:
        """`lookup` of each key, in one call."""
        return self._core.lookup_many([self._key(key) for key in keys])

    def wait(self, keys: KeyLike | Iterable[KeyLike], timeout: float = 5.0) -> list[Presence]:
        """Waits until every key is present or the timeout passes, and says what each key is then.

        At most 4096 keys. Running out of time is not an error. Signals are handled while it waits.
        """
        several = [keys] if isinstance(keys, str | ObjectKey) else keys
        return self._core.wait([self._key(key) for key in several], timeout)

    # --- writing ---

    def put(
        self,
        key: KeyLike,
        value: Tensor | Mapping[str, Tensor],
        *,
        attributes: Mapping[str, AttributeInput] | None = None,
        timeout: float = 5.0,
        checksums: bool = True,
        pin: Pin = None,
    ) -> Outcome:
        """Copies tensors in and publishes them under the key, all or nothing.

        value: a torch tensor or numpy array of 0 to 8 dimensions and at least one element, or a
        mapping of up to 64 names to such. One that is not contiguous is copied twice; one on a
        device is copied by its memory kind. attributes: text, int, float, or lists of int or
        float, 4 KiB in all. checksums: one per 256 KiB, computed on the way. pin: seconds to keep
        the object unless nothing else can be evicted, or 'hard' until it is unpinned.

        Returns 'published'; 'duplicate' when the same object was there already and stays;
        'divergent_duplicate' when it differs in content. Raises Conflict when the object there
        has another dtype or shape, OutOfSpace, Unavailable, TimedOut, InvalidArgument, Limit,
        Detached.
        """
        parts = parts_of(value)
        object_key = self._key(key)
        options = _write_options(attributes, timeout, checksums, pin)
        if all(part.copy_into is None for part in parts):
            tensors = [(part.name, part.dtype, part.shape, part.address) for part in parts]
            return self._core.put(object_key, tensors, **options)
        return self._put_from_devices(object_key, parts, options)

    @overload
    def reserve(
        self,
        key: KeyLike,
        spec: SpecLike | Mapping[str, SpecLike],
        *,
        as_: Literal["torch"] = "torch",
        attributes: Mapping[str, AttributeInput] | None = None,
        timeout: float = 5.0,
        write_timeout: float = 60.0,
        checksums: bool = True,
        pin: Pin = None,
    ) -> Reservation[torch.Tensor] | None: ...
    @overload
    def reserve(
        self,
        key: KeyLike,
        spec: SpecLike | Mapping[str, SpecLike],
        *,
        as_: Literal["numpy"],
        attributes: Mapping[str, AttributeInput] | None = None,
        timeout: float = 5.0,
        write_timeout: float = 60.0,
        checksums: bool = True,
        pin: Pin = None,
    ) -> Reservation[NumpyArray] | None: ...
    def reserve(
        self,
        key: KeyLike,
        spec: SpecLike | Mapping[str, SpecLike],
        *,
        as_: Literal["torch", "numpy"] = "torch",
        attributes: Mapping[str, AttributeInput] | None = None,
        timeout: float = 5.0,
        write_timeout: float = 60.0,
        checksums: bool = True,
        pin: Pin = None,
    ) -> Reservation[torch.Tensor] | Reservation[NumpyArray] | None:
        """Takes a key and memory for it, to be written in place:

            reservation = client.reserve("photo-17", ("bfloat16", (1000, 3584)))
            if reservation is not None:          # None: the same object is there already
                with reservation:
                    encode(image, out=reservation.tensor)

        spec: (dtype, shape), or a mapping of names to such. write_timeout: seconds until a
        reservation that was not published expires. The rest as for `put`.

        Raises Pending when another live writer holds the key, Conflict when another dtype or
        shape is there, and what `put` raises.
        """
        specs = named_specs(spec)
        options = _write_options(attributes, timeout, checksums, pin)
        as_array: Callable[[_core.Array], Any]
        if as_ == "torch":
            from .torch_support import as_tensor as as_array
        else:
            as_array = _numpy_reader(as_)
        writer = self._core.reserve(self._key(key), specs, write_timeout=write_timeout, **options)
        return None if writer is None else Reservation(writer, as_array)

    def remove(self, key: KeyLike, timeout: float = 5.0) -> None:
        """Removes an object; tensors of it stay valid. Raises NotFound."""
        self._core.remove(self._key(key), timeout)

    def invalidate(self, prefix: str, timeout: float = 5.0) -> int:
        """Removes every object whose key text starts with `prefix`, and returns how many."""
        return self._core.invalidate(prefix, timeout)

    def pin(self, key: KeyLike, seconds: float | None = None) -> None:
        """Keeps an object for so many seconds unless nothing else can be evicted; without a
        number until `unpin`.
        """
        self._core.pin(self._key(key), seconds)

    def unpin(self, key: KeyLike) -> None:
        """Ends every pin of an object."""
        self._core.unpin(self._key(key))

    # --- seeing ---

    def list(self, prefix: str = "", limit: int = 0) -> list[ObjectInfo]:
        """Objects whose key text starts with `prefix`, at most `limit` of them (0: all), in no
        order.
        """
        return self._core.list(prefix, limit)

    def stats(self) -> ArenaStats:
        """Sizes in bytes and counters of the arena."""
        return self._core.stats()

    def clients(self) -> builtins.list[ClientInfo]:
        """The processes attached to the arena, and what each counted."""
        return self._core.clients()

    # --- inside ---

    def _key(self, key: KeyLike) -> ObjectKey:
        return key if isinstance(key, ObjectKey) else self._parse(key)

    def _load_torch(self) -> Callable[[Any], torch.Tensor]:
        from .torch_support import from_capsule

        self._from_capsule = from_capsule
        return from_capsule

    def _put_from_devices(
        self, key: ObjectKey, parts: builtins.list[Part], options: dict[str, Any]
    ) -> Outcome:
        writer = self._core.reserve(key, [(p.name, p.dtype, p.shape) for p in parts], **options)
        if writer is None:
            return "duplicate"
        try:
            for part in parts:
                if part.copy_into is None:
                    writer.write(part.name, part.address)
                else:
                    part.copy_into(writer)
            return writer.publish()
        except BaseException:
            writer.abandon()
            raise


def _numpy_reader(as_: str) -> Callable[[_core.Array], NumpyArray]:
    if as_ != "numpy":
        raise InvalidArgument(f"as_ is {as_!r}; it may be 'torch' or 'numpy'")
    from .numpy_support import as_array

    return as_array


def _write_options(
    attributes: Mapping[str, AttributeInput] | None, timeout: float, checksums: bool, pin: Pin
) -> dict[str, Any]:
    if not (pin is None or pin == "hard" or isinstance(pin, int | float)):
        raise InvalidArgument(f"pin is {pin!r}; it may be a number of seconds, 'hard' or None")
    return {
        "attributes": None if attributes is None else dict(attributes),
        "timeout": timeout,
        "checksums": checksums,
        "soft_pin": pin if isinstance(pin, int | float) else None,
        "hard_pin": pin == "hard",
    }
