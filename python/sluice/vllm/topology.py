"""Who this process is inside its engine, and which ranks must map a feature.

Ranks: vLLM numbers the workers of one engine so that those of pipeline stage 0, the only ones with
an encoder cache, are 0 .. TP x PCP - 1.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from vllm.config import VllmConfig

Side = Literal["scheduler", "worker"]


@dataclass(frozen=True, slots=True)
class Identity:
    engine: str  # the same in all processes of one engine, different between engines
    side: Side
    rank: int  # of the worker; 0 for the scheduler
    loading_ranks: frozenset[int]  # every rank that maps features

    @property
    def label(self) -> str:
        """Shown by `sluice top`, at most 63 bytes."""
        return f"{self.engine_label}{self.side}{self.rank if self.side == 'worker' else ''}"

    @property
    def engine_label(self) -> str:
        """The beginning that the labels of this engine's processes share."""
        return f"vllm/{self.engine[-36:]}/"

    @property
    def writes(self) -> bool:
        """A replicated output is written by one rank."""
        return self.side == "worker" and self.rank == 0


def identity_of(vllm_config: "VllmConfig", side: Side) -> Identity:
    parallel = vllm_config.parallel_config
    transfer = vllm_config.ec_transfer_config
    assert transfer is not None
    engine = f"{transfer.engine_id}_{parallel.data_parallel_index}"
    stage_ranks = parallel.tensor_parallel_size * parallel.prefill_context_parallel_size
    rank = parallel.rank if side == "worker" else 0
    return Identity(engine, side, rank, frozenset(range(stage_ranks)))
