"""A key being written in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from .errors import InvalidArgument

if TYPE_CHECKING:
    from types import TracebackType

    from ._core import Array, Outcome, Writer

T = TypeVar("T")


class Reservation(Mapping[str, T], Generic[T]):
    """A mapping of names to writable tensors that are the arena's own memory; their content is
    undefined at first.

    Look-ups of the key answer 'pending' until the reservation ends. As a context manager it
    publishes on a clean exit and abandons on an exception. Tensors kept past the end go on
    working as private memory with the same content; writing to them reaches nobody. (That costs
    one copy of what is still held, so drop them inside the block where it matters.) One thread at
    a time.
    """

    def __init__(self, writer: Writer, as_tensor: Callable[[Array], T]) -> None:
        self._writer = writer
        self._as_tensor = as_tensor
        self._names = tuple(info.name for info in writer.tensors)
        self._tensors: dict[str, T] = {}
        self._outcome: Outcome | None = None

    def __getitem__(self, name: str) -> T:
        if name not in self._tensors:
            if name not in self._names:
                raise KeyError(name)
            self._tensors[name] = self._as_tensor(self._writer.array(name))
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def tensor(self) -> T:
        """The only tensor of a reservation of one. Raises InvalidArgument when there are
        several.
        """
        if len(self._names) != 1:
            raise InvalidArgument(
                f"this reservation has several tensors; name one of {self._names}"
            )
        return self[self._names[0]]

    @property
    def outcome(self) -> Outcome | None:
        """'published', or 'duplicate' or 'divergent_duplicate' when the object appeared
        meanwhile; None before.
        """
        return self._outcome

    def publish(self, timeout: float | None = None) -> Outcome:
        """The caller's word that its last write is done.

        timeout: seconds for the daemon's answer; None is that of the reservation. Raises Expired
        when the writing deadline has passed, Unavailable or TimedOut.
        """
        self._tensors.clear()
        self._outcome = self._writer.publish(timeout)
        return self._outcome

    def abandon(self) -> None:
        """Gives the key and its memory back, without waiting for the daemon to have heard of it.

        Has no effect after the end.
        """
        self._tensors.clear()
        self._writer.abandon()

    def __enter__(self) -> Reservation[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._writer.open:
            return
        if kind is None:
            self.publish()
        else:
            self.abandon()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        if not self._writer.open:
            return f"<sluice.Reservation ended: {self._outcome or 'abandoned'}>"
        tensors = ", ".join(f"{t.name}: {t.dtype}{list(t.shape)}" for t in self._writer.tensors)
        return f"<sluice.Reservation {tensors}>"
