"""Sluice: tensors that the processes of one machine share through an arena, without copying them.

    import sluice

    with sluice.connect() as client:
        client.put("photo-17", features)        # a torch tensor or a numpy array
        tensor = client.get("photo-17")         # no copy; the bytes stay while the tensor lives

The arena belongs to the daemon `sluiced`. Importing this package imports neither torch nor numpy
nor vLLM, starts no thread and registers nothing anywhere; `sluice.vllm` is used only by an engine
whose configuration names it.
"""

from .bundle import Bundle
from .client import Client, connect
from .errors import (
    Conflict,
    Corrupt,
    Detached,
    Error,
    Expired,
    InternalError,
    InvalidArgument,
    Limit,
    NotFound,
    OutOfSpace,
    Pending,
    PermissionDenied,
    SystemFailure,
    TimedOut,
    Unavailable,
    Unsupported,
    VersionMismatch,
)
from .key import ObjectKey
from .reservation import Reservation
from .specs import TensorSpec

__version__ = "0.1.0"

__all__ = [
    "Bundle",
    "Client",
    "Conflict",
    "Corrupt",
    "Detached",
    "Error",
    "Expired",
    "InternalError",
    "InvalidArgument",
    "Limit",
    "NotFound",
    "ObjectKey",
    "OutOfSpace",
    "Pending",
    "PermissionDenied",
    "Reservation",
    "SystemFailure",
    "TensorSpec",
    "TimedOut",
    "Unavailable",
    "Unsupported",
    "VersionMismatch",
    "connect",
]
