"""One group of engines at a time: memory for two does not fit a small machine, and starting one
takes most of a minute, so that tests share it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self, TypeVar, cast

T = TypeVar("T", bound=AbstractContextManager[Any])


class Stage:
    """Holds what is running; showing something else stops it first. A context manager."""

    def __init__(self) -> None:
        self._name = ""
        self._running: AbstractContextManager[Any] | None = None

    def show(self, name: str, make: Callable[[], T]) -> T:
        """What `make` made under this name, entered."""
        if self._name != name:
            self.clear()
            made = make()
            self._running = made.__enter__()
            self._name = name
        return cast(T, self._running)

    def clear(self) -> None:
        running, self._running, self._name = self._running, None, ""
        if running is not None:
            running.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()
