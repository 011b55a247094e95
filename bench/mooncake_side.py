"""Mooncake Store over TCP, one operation a line.

mooncake_side.py owner METADATA_URL MASTER LOCAL BYTES    holds the segment until its input ends
mooncake_side.py client METADATA_URL MASTER LOCAL BYTES   takes lines of `put N` and `get N`, and
                                                          answers in nanoseconds

Buffers are registered and used without a copy, as Mooncake recommends; an object is the 304-byte
header of a tensor object and its payload.
"""

import os
import sys
import time

import numpy as np
from mooncake.store import MooncakeDistributedStore

HEADER_BYTES = 304
BUFFERS = 9
SEGMENT_BYTES = 2 << 30
LOCAL_BYTES = 256 << 20


def main() -> None:
    role, metadata, master, local = sys.argv[1:5]
    payload = int(sys.argv[5])
    # Mooncake logs to standard output too: answers get a descriptor that only they use.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    store = MooncakeDistributedStore()
    segment = SEGMENT_BYTES if role == "owner" else 0
    code = store.setup(local, metadata, segment, LOCAL_BYTES, "tcp", "", master)
    if code != 0:
        raise SystemExit(f"mooncake setup answered {code}")
    total = HEADER_BYTES + payload
    words = np.random.default_rng(1).integers(0, 1 << 63, BUFFERS * total // 8 + 1, dtype=np.int64)
    source = words.view(np.uint8)
    target = np.ones(BUFFERS * total, dtype=np.uint8)
    if role == "client":
        for buffer in (source, target):
            code = store.register_buffer(buffer.ctypes.data, buffer.nbytes)
            if code != 0:
                raise SystemExit(f"mooncake register_buffer answered {code}")
    print("ready", file=answers, flush=True)
    for turn, line in enumerate(sys.stdin):
        what, number = line.split()
        at = turn % BUFFERS * total
        start = time.perf_counter_ns()
        if what == "put":
            address = source.ctypes.data + at
            (code,) = store.batch_put_from_multi_buffers(
                [number], [[address, address + HEADER_BYTES]], [[HEADER_BYTES, payload]]
            )
            done = code == 0
        else:
            done = store.get_into(number, target.ctypes.data + at, total) == total
        took = time.perf_counter_ns() - start
        if not done:
            raise SystemExit(f"mooncake {what} {number} failed")
        print(took, file=answers, flush=True)
    store.close()


if __name__ == "__main__":
    main()
