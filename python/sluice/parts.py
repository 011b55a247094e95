"""Tensors on their way into the arena: where their bytes lie, and what keeps them there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import InvalidArgument
from .specs import ONLY_TENSOR

if TYPE_CHECKING:
    from ._core import Writer
    from .specs import Tensor


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor to put.

    Invariant: while `owner` lives, `address` is its first element, C-contiguous. `copy_into` is
    set when that is memory of a device, and copies it into a reservation.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    address: int
    owner: object
    copy_into: Callable[[Writer], None] | None = None


def parts_of(value: Tensor | Mapping[str, Tensor]) -> list[Part]:
    """The parts of a tensor, or of a mapping of names to tensors. A tensor that is not contiguous
    is copied.
    """
    named = value if isinstance(value, Mapping) else {ONLY_TENSOR: value}
    if not named:
        raise InvalidArgument(
            "the mapping of tensors is empty; an object holds at least one tensor"
        )
    return [_part(name, tensor) for name, tensor in named.items()]


def _part(name: str, tensor: Any) -> Part:
    if not isinstance(name, str):
        raise InvalidArgument(f"a tensor's name is {name!r}; it may be a str")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        from . import torch_support

        return torch_support.part(name, tensor)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(tensor, numpy.ndarray):
        from . import numpy_support

        return numpy_support.part(name, tensor)
    raise InvalidArgument(
        f"tensor {name!r} is of type {type(tensor).__name__}; pass a torch tensor, a numpy array, "
        "or a mapping of names to them"
    )
