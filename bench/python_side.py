"""The Python package: gets of one tensor, and puts of 7 MiB beside torch's copy_.

    python_side.py DIRECTORY GETS PUTS

Prints series, as the C++ programs do. torch's copy_ goes from the same rotating tensors to rotating
shared memory that is mapped in, as the arena's extents are. torch has one thread here, as a put
has, and as an engine gives it that shares its processors.
"""

import json
import mmap
import sys
import time

import sluice
import torch

ROWS, WIDTH = 1024, 3584  # 7 MiB of bfloat16
BUFFERS = 9
BYTES = ROWS * WIDTH * 2


def emit(name: str, samples: list[int]) -> None:
    print(json.dumps({"series": name, "unit": "ns", "samples": samples}), flush=True)


def measure_gets(client: sluice.Client, count: int) -> None:
    key = sluice.ObjectKey(
        "seen",
        model="Qwen/Qwen2.5-VL-7B-Instruct",
        revision="main",
        encoder="5b1f0a7c9d3e42681f7a",
        dtype="bfloat16",
    )
    client.put(key, torch.zeros(ROWS, WIDTH, dtype=torch.bfloat16))
    tensor = client.get(key)
    del tensor
    samples = []
    for _ in range(count):
        start = time.perf_counter_ns()
        tensor = client.get(key)
        del tensor
        samples.append(time.perf_counter_ns() - start)
    emit("py_get_ns", samples)


def measure_puts(client: sluice.Client, count: int) -> None:
    torch.manual_seed(1)
    tensors = [torch.randn(ROWS, WIDTH).to(torch.bfloat16) for _ in range(BUFFERS)]
    memory = mmap.mmap(-1, BUFFERS * BYTES)  # shared, as an arena's is
    places = torch.frombuffer(memory, dtype=torch.bfloat16).fill_(1).view(BUFFERS, ROWS, WIDTH)
    copies, puts = [], []
    turn = 0

    def put(number: int) -> int:
        source = tensors[turn % BUFFERS]
        start = time.perf_counter_ns()
        client.put(f"put-{number}", source)
        return time.perf_counter_ns() - start

    def copy(number: int) -> int:
        source, target = tensors[turn % BUFFERS], places[turn % BUFFERS]
        start = time.perf_counter_ns()
        target.copy_(source)
        return time.perf_counter_ns() - start

    for number in range(count + 2):
        took = {}
        for side in (put, copy) if number % 2 == 0 else (copy, put):
            took[side] = side(number)
            turn += 1
        if number >= 2:
            puts.append(took[put])
            copies.append(took[copy])
    emit("torch_copy_ns", copies)
    emit("py_put_ns", puts)


def main() -> None:
    directory, gets, puts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    with sluice.connect(directory=directory, label="bench python") as client:
        wait_until_mapped(client)
        measure_gets(client, gets)
        measure_puts(client, puts)


def wait_until_mapped(client: sluice.Client) -> None:
    """Until the client's helper thread has mapped the arena in."""
    wanted = client.core.stats()["arena_bytes"]
    deadline = time.monotonic() + 60
    while shared_bytes() < wanted:
        if time.monotonic() > deadline:
            raise SystemExit("the arena was not mapped in in time")
        time.sleep(0.001)


def shared_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[2]) * 4096


if __name__ == "__main__":
    main()
