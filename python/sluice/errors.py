"""The exceptions of Sluice, one for each error code; each also derives from the standard
exception it is like.

Every one has `code` (what happened) and `drop` (what the caller has to give up: 'nothing',
'object', 'transfer', 'peer', 'segment' or 'process'), and its message says what was wrong and
what would be right.
"""

from ._core import (
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

__all__ = [
    "Conflict",
    "Corrupt",
    "Detached",
    "Error",
    "Expired",
    "InternalError",
    "InvalidArgument",
    "Limit",
    "NotFound",
    "OutOfSpace",
    "Pending",
    "PermissionDenied",
    "SystemFailure",
    "TimedOut",
    "Unavailable",
    "Unsupported",
    "VersionMismatch",
]
