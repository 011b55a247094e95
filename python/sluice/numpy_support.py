"""numpy arrays in and out of the arena. Imported when the first array comes along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from .errors import Unsupported
from .parts import Part

if TYPE_CHECKING:
    from ._core import Array

# numpy itself has none of these; the package ml_dtypes adds them, under the names on the right.
_EXTENDED = {
    "bfloat16": "bfloat16",
    "float8_e4m3": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
}


def part(name: str, array: numpy.ndarray[Any, Any]) -> Part:
    """Where an array's bytes lie. One that is not C-contiguous or not in native byte order is
    copied.
    """
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    contiguous = array if array.flags.c_contiguous else array.copy(order="C")
    return Part(name, array.dtype.name, array.shape, contiguous.ctypes.data, contiguous)


def as_array(array: Array) -> numpy.ndarray[Any, Any]:
    """A numpy array over the memory, no copy; it keeps the memory. Raises Unsupported for a dtype
    that numpy lacks.
    """
    if array.dtype not in _EXTENDED:
        return numpy.asarray(array)
    try:
        import ml_dtypes
    except ImportError:
        raise Unsupported(
            f"numpy has no {array.dtype}; install the package ml_dtypes, "
            "or get the tensor with as_='torch'"
        ) from None
    dtype: numpy.dtype[Any] = numpy.dtype(getattr(ml_dtypes, _EXTENDED[array.dtype]))
    return numpy.frombuffer(memoryview(array), dtype=dtype).reshape(array.shape)
