"""How much is measured: a full run, and a small one that only shows that everything works."""

from dataclasses import dataclass
from typing import Literal

MIB = 1 << 20
BYTES_16M = 16 * MIB


@dataclass(frozen=True)
class Plan:
    copy_objects: int = 44  # of 16 MiB, in an arena of copy_arena
    copy_arena: str = "768MiB"
    copy_samples: int = 60
    fresh_clients: int = 4  # new processes for what only the first touch shows
    later_passes: int = 3
    gets: int = 20_000
    get_rounds: int = 10
    small_puts: int = 400
    lookup_objects: tuple[int, int, int] = (10_000, 100_000, 1_000_000)
    lookup_batches: int = 3_000  # a round
    lookup_rounds: int = 3
    utilisation_arena: str = "1GiB"
    utilisation_rounds: int = 60
    idle_s: float = 10.0
    peer_samples: int = 24
    peer_readers: int = 3
    python_gets: int = 5_000
    python_puts: int = 60
    engine_samples: int = 40
    serving_s: float = 2.0  # a turn of one side
    serving_rounds: int = 5
    serving_idle: int = 2_000  # connections
    handoff_bytes: int = 64 * MIB
    handoff_samples: int = 20
    ttft_samples: int = 20
    ttft_prompt_tokens: int = 2_000
    ttft_concurrency: tuple[int, ...] = (1, 4, 8)
    ttft_images: int = 32  # different ones at each concurrency
    report_arms: tuple[str, ...] = ("colocated", "disk", "sluice")
    report_concurrency: tuple[int, ...] = (1, 8, 32)
    report_repeats: tuple[int, ...] = (0, 50, 100)  # percent of the requests
    report_sizes: tuple[Literal["small", "large"], ...] = ("small", "large")
    report_requests: int = 16  # in a cell, and at least as many as are at once
    report_s_max: float = 1_500.0  # no cell begins later


FULL = Plan()
QUICK = Plan(
    copy_objects=6,
    copy_arena="192MiB",
    copy_samples=3,
    fresh_clients=1,
    later_passes=1,
    gets=200,
    get_rounds=1,
    small_puts=10,
    lookup_objects=(500, 1_000, 4_000),
    lookup_batches=20,
    lookup_rounds=1,
    utilisation_arena="128MiB",
    utilisation_rounds=2,
    idle_s=1.5,
    peer_samples=2,
    peer_readers=1,
    python_gets=50,
    python_puts=3,
    engine_samples=2,
    serving_s=0.5,
    serving_rounds=1,
    serving_idle=50,
    handoff_bytes=8 * MIB,
    handoff_samples=2,
    ttft_samples=2,
    ttft_prompt_tokens=1_000,
    ttft_concurrency=(1,),
    ttft_images=1,
    report_concurrency=(1, 4),
    report_repeats=(0, 50),
    report_sizes=("small",),
    report_requests=2,
)
