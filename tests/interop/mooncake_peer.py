"""A Mooncake Store client in a process of its own, driven by lines of JSON on its standard input.

The peer's threads, environment and crashes stay out of the test process. Each request is
`{"op": ..., "key": ..., "file": ...}` and gets one line back: an object, or `{"error": text}`.
Tensors travel as the raw bytes of their elements in `file`.

Started as `mooncake_peer.py METADATA_URL MASTER_ADDRESS LOCAL_ADDRESS`; ends when its input ends.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from mooncake.store import MooncakeDistributedStore

SEGMENT_BYTES = 64 << 20
BUFFER_BYTES = 16 << 20

Request = dict[str, Any]
Answer = dict[str, Any]


def connect(metadata: str, master: str, local: str) -> Any:
    """The store over TCP, with a segment of its own to hold the objects."""
    store = MooncakeDistributedStore()
    code = store.setup(local, metadata, SEGMENT_BYTES, BUFFER_BYTES, "tcp", "", master)
    if code != 0:
        raise SystemExit(f"mooncake setup answered {code}")
    return store


def to_tensor(raw: bytes, dtype: str, shape: list[int]) -> torch.Tensor:
    """The elements in `raw` as a tensor."""
    if not raw:
        return torch.empty(shape, dtype=getattr(torch, dtype))
    elements = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
    return elements.view(getattr(torch, dtype)).reshape(shape)


def to_bytes(tensor: torch.Tensor) -> bytes:
    """The elements of a tensor in C order."""
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())


class Peer:
    """One operation per method, named as in the requests."""

    def __init__(self, store: Any) -> None:
        self.store = store

    def put_bytes(self, request: Request) -> Answer:
        """Stores the file as it is."""
        return {"code": self.store.put(request["key"], Path(request["file"]).read_bytes())}

    def get_bytes(self, request: Request) -> Answer:
        """Fetches an object as it is into the file."""
        content = self.store.get(request["key"])
        Path(request["file"]).write_bytes(content)
        return {"bytes": len(content)}

    def put_tensor(self, request: Request) -> Answer:
        """Stores a tensor as Mooncake writes it."""
        tensor = to_tensor(Path(request["file"]).read_bytes(), request["dtype"], request["shape"])
        return {"code": self.store.put_tensor(request["key"], tensor)}

    def get_tensor(self, request: Request) -> Answer:
        """Fetches a tensor as Mooncake reads it; dtype null when it refuses the object."""
        tensor = self.store.get_tensor(request["key"])
        if tensor is None:
            return {"dtype": None}
        Path(request["file"]).write_bytes(to_bytes(tensor))
        return {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape)}


def main() -> None:
    """Serves requests until the input ends."""
    # Mooncake logs to standard output too: answers get a descriptor that only they use.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    store = connect(*sys.argv[1:4])
    peer = Peer(store)
    operations: dict[str, Callable[[Request], Answer]] = {
        "put_bytes": peer.put_bytes,
        "get_bytes": peer.get_bytes,
        "put_tensor": peer.put_tensor,
        "get_tensor": peer.get_tensor,
    }
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = operations[request["op"]](request)
        except Exception as error:  # reported to the test, which decides what it means
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
    store.close()


if __name__ == "__main__":
    main()
