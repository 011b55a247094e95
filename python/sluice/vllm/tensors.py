"""Between torch tensors and the arena's tensors: names of dtypes, shapes, bytes.

Shapes: a feature is always (rows, width), C-contiguous, in the dtype that its key names.
"""

from typing import Any

import numpy
import torch
import torch.utils.dlpack

from sluice import _core

# The arena's names, as include/sluice/tensor.h prints them.
_NAMES = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float8_e4m3fn: "float8_e4m3",
    torch.float8_e5m2: "float8_e5m2",
}


def dtype_name(dtype: torch.dtype) -> str | None:
    """The arena's name of a torch dtype that a feature may have; None for any other."""
    return _NAMES.get(dtype)


def host_bytes(tensor: torch.Tensor) -> "numpy.ndarray[Any, numpy.dtype[numpy.uint8]]":
    """The bytes of a C-contiguous host tensor, without a copy."""
    return tensor.detach().reshape(-1).view(torch.uint8).numpy()


def over(source: "_core.Lease | _core.Writer") -> torch.Tensor:
    """A tensor over the object's only tensor, without a copy.

    Of a lease: this process's private mapping, and the tensor keeps the lease alive.
    """
    return torch.utils.dlpack.from_dlpack(source.array())
