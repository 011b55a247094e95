"""One object with all of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .errors import Detached

if TYPE_CHECKING:
    from types import TracebackType

    from ._core import Array, AttributeValue, Descriptor, Lease

T = TypeVar("T")


class Bundle(Mapping[str, T], Generic[T]):
    """A mapping of names to tensors of one object, all under one lease. No tensor is copied.

    Tensors lie in this process's private view of the arena: a write to one is seen by this
    process only and is gone when the lease ends. The lease ends when the bundle is closed or
    dropped and none of its tensors is left, so a tensor may outlive its bundle. One thread at a
    time.
    """

    def __init__(self, lease: Lease, as_tensor: Callable[[Array], T]) -> None:
        self._lease: Lease | None = lease
        self._as_tensor = as_tensor
        self._names = tuple(info.name for info in lease.tensors)
        self._tensors: dict[str, T] = {}
        self._attributes = lease.attributes
        self._nbytes = lease.nbytes

    def __getitem__(self, name: str) -> T:
        if name not in self._tensors:
            if name not in self._names:
                raise KeyError(name)
            self._tensors[name] = self._as_tensor(self.lease.array(name))
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def attributes(self) -> dict[str, AttributeValue]:
        """What the producer put with the object: text, lists of int, lists of float."""
        return self._attributes

    @property
    def nbytes(self) -> int:
        """Bytes of the whole object, headers included."""
        return self._nbytes

    @property
    def lease(self) -> Lease:
        """The native lease. Raises Detached after `close`."""
        if self._lease is None:
            raise Detached("this bundle is closed; get the object again")
        return self._lease

    @property
    def descriptor(self) -> Descriptor:
        """Where the object lies, for another process of this machine to adopt while this bundle
        is open.
        """
        return self.lease.descriptor

    def close(self) -> None:
        """Gives the bundle's own tensors and its lease up. Tensors that the caller kept stay
        valid, and keep the lease.
        """
        self._tensors.clear()
        self._lease = None

    def __enter__(self) -> Bundle[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __eq__(self, other: Any) -> bool:
        return self is other  # comparing tensors element by element is not what == is asked for

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        if self._lease is None:
            return "<sluice.Bundle closed>"
        tensors = ", ".join(f"{t.name}: {t.dtype}{list(t.shape)}" for t in self._lease.tensors)
        return f"<sluice.Bundle {tensors}; {len(self._attributes)} attributes>"
