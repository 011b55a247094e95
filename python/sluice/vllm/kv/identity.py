"""Who this process is inside its engine."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from vllm.config import VllmConfig


@dataclass(frozen=True, slots=True)
class Identity:
    engine: str  # the same in all processes of one engine, different between engines
    side: Literal["scheduler", "worker"]
    rank: int  # of the worker; 0 for the scheduler
    ranks: int  # workers that share the heads of every layer

    @property
    def engine_label(self) -> str:
        """The beginning that the labels of this engine's processes share."""
        return f"vllm-kv/{self.engine[-36:]}/"

    @property
    def label(self) -> str:
        """Shown by `sluice top`, at most 63 bytes."""
        return f"{self.engine_label}{self.side}{self.rank if self.side == 'worker' else ''}"


def identity_of(vllm_config: "VllmConfig", side: Literal["scheduler", "worker"]) -> Identity:
    parallel = vllm_config.parallel_config
    transfer = vllm_config.kv_transfer_config
    assert transfer is not None
    engine = f"{transfer.engine_id}_{parallel.data_parallel_index}"
    rank = parallel.rank if side == "worker" else 0
    return Identity(engine, side, rank, parallel.tensor_parallel_size)
