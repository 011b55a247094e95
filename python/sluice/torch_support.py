"""torch tensors in and out of the arena. Imported when the first tensor comes along."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.dlpack import from_dlpack

from . import _core
from .errors import InvalidArgument
from .parts import Part
from .specs import dtype_name

if TYPE_CHECKING:
    from ._core import Array, Writer


def part(name: str, tensor: torch.Tensor) -> Part:
    """Where a tensor's bytes lie. One that is not contiguous is copied first, on its own device."""
    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        raise InvalidArgument(
            f"tensor {name!r} has layout {tensor.layout} on device {tensor.device}; "
            "pass a dense tensor that has its elements in memory"
        )
    # A tensor with the negative bit shows other values than its memory holds.
    dense = tensor.detach().resolve_neg().contiguous()
    copy_into = None if dense.device.type == "cpu" else partial(copy_from_device, name, dense)
    return Part(
        name, dtype_name(dense.dtype), tuple(dense.shape), dense.data_ptr(), dense, copy_into
    )


def copy_from_device(name: str, tensor: torch.Tensor, writer: Writer) -> None:
    """Copies a tensor of any device into a reservation: through the memory kind's own copier
    where this build has one, in the order of the caller's current stream; otherwise torch moves
    it into the arena's host memory.
    """
    cuda: Any = getattr(_core.Device, "cuda", None)
    if cuda is not None and tensor.is_cuda:
        stream = torch.cuda.current_stream(tensor.device).cuda_stream
        writer.copy_from(name, cuda(tensor.device.index), tensor.data_ptr(), stream)
    else:
        as_tensor(writer.array(name)).copy_(tensor)


def as_tensor(array: Array) -> torch.Tensor:
    """A tensor over the memory, no copy; it keeps the memory."""
    return from_capsule(array.__dlpack__())


def from_capsule(capsule: Any) -> torch.Tensor:
    """A tensor over the memory that a DLPack capsule names."""
    tensor: torch.Tensor = from_dlpack(capsule)
    return tensor
