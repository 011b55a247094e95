"""What one tensor is: dtype and shape, under the names that the arena uses.

Names: float16, float32, float64, bfloat16, float8_e4m3, float8_e5m2, bool, int8 to int64, uint8
to uint64.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .errors import InvalidArgument

if TYPE_CHECKING:
    import numpy
    import torch

    Tensor: TypeAlias = torch.Tensor | numpy.ndarray[Any, Any]
    DTypeLike: TypeAlias = str | torch.dtype | numpy.dtype[Any] | type[Any]

ONLY_TENSOR = "tensor"  # what a bundle of one calls its tensor


class TensorSpec(NamedTuple):
    """dtype: a name, a torch dtype or a numpy dtype. shape: 0 to 8 dimensions, each at least 1."""

    dtype: DTypeLike
    shape: Sequence[int]


SpecLike: TypeAlias = "TensorSpec | tuple[DTypeLike, Sequence[int]]"


def dtype_name(dtype: DTypeLike) -> str:
    """The arena's name of a dtype. The native module refuses names that it does not know."""
    if isinstance(dtype, str):
        return dtype
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(dtype, torch.dtype):
        return str(dtype).removeprefix("torch.")
    import numpy

    anything: Any = dtype
    try:
        return str(numpy.dtype(anything).name)
    except TypeError:
        raise InvalidArgument(
            f"{dtype!r} is not a dtype; pass a name such as 'bfloat16', "
            "a torch dtype or a numpy dtype"
        ) from None


def named_specs(
    spec: SpecLike | Mapping[str, SpecLike],
) -> list[tuple[str, str, tuple[int, ...]]]:
    """One spec, or a mapping of names to specs, as the native module takes them."""
    named = spec if isinstance(spec, Mapping) else {ONLY_TENSOR: spec}
    out = []
    for name, one in named.items():
        if not isinstance(one, tuple) or len(one) != 2:
            raise InvalidArgument(
                f"the spec of tensor {name!r} is {one!r}; pass (dtype, shape), "
                "for instance ('bfloat16', (1000, 3584))"
            )
        out.append((name, dtype_name(one[0]), tuple(one[1])))
    return out
