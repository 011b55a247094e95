"""safetensors files in the default temporary folder, one a line: `put N`; answers in nanoseconds.

safetensors_side.py BYTES
"""

import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

BUFFERS = 9


def main() -> None:
    payload = int(sys.argv[1])
    torch.manual_seed(1)
    tensors = [torch.randint(0, 255, (payload,), dtype=torch.uint8) for _ in range(BUFFERS)]
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        print("ready", flush=True)
        for turn, line in enumerate(sys.stdin):
            path = Path(folder) / line.split()[1]
            start = time.perf_counter_ns()
            save_file({"tensor": tensors[turn % BUFFERS]}, path)
            print(time.perf_counter_ns() - start, flush=True)


if __name__ == "__main__":
    main()
