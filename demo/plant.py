"""Faults that the demo must notice. A fault is planted between the encoder's answer and the
prefill's request.

flip-byte   one bit of one payload byte of the turn's first feature, in the arena's shared memory
drop-load   one load of the engine with a tower is dropped by its connector
drop-group  one layer group of one hand-off is never published by prefill's connector
(the last two: support/planted_connector.py)
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice._core import Client

FAULTS = ("flip-byte", "drop-load")  # of the arena act
SERVING_FAULTS = ("drop-group",)  # of the serving act
# In the folder that the engines know: its presence plants the fault once.
DROP_LOAD_FILE = "drop-load"
DROP_GROUP_FILE = "drop-group"
PAYLOAD_OFFSET = 304 + 1001  # past the tensor's header, some row of the first tensor


def flip_byte(client: "Client", uuid: str) -> None:
    """Flips the lowest bit of one payload byte of the object with this id. Raises LookupError
    without one.
    """
    from sluice._core import ObjectKey

    keys = [ObjectKey.parse(entry["key"]) for entry in client.list()]
    key = next((key for key in keys if key.id == uuid), None)
    if key is None:
        raise LookupError(f"no object with id {uuid} is in the arena")
    with client.acquire(key) as lease:
        where = lease.descriptor
        with segment_file(client, where.segment).open("r+b") as memory:
            memory.seek(where.offset + PAYLOAD_OFFSET)
            byte = memory.read(1)[0]
            memory.seek(where.offset + PAYLOAD_OFFSET)
            memory.write(bytes([byte ^ 1]))


def segment_file(client: "Client", segment: int) -> Path:
    return Path(client.directory) / f"data.{segment}"


def drop_load(folder: Path) -> None:
    arm(folder, DROP_LOAD_FILE)


def arm(folder: Path, fault: str) -> None:
    """The next time an engine could make this fault, it will."""
    (folder / fault).touch()


def clear(folder: Path) -> None:
    """Faults that an earlier run left."""
    folder.mkdir(parents=True, exist_ok=True)
    for fault in (DROP_LOAD_FILE, DROP_GROUP_FILE):
        (folder / fault).unlink(missing_ok=True)
