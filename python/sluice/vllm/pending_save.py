"""A feature that was copied into its reservation and is not published yet."""

from dataclasses import dataclass

from sluice import _core


@dataclass(slots=True)
class PendingSave:
    identifier: str
    writer: "_core.Writer"
    nbytes: int
    republished: bool
