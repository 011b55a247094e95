"""What the scheduler's connector tells the workers' connectors each step, and the answer.

Plain values only: these objects cross process borders inside vLLM's own messages.
"""

from dataclasses import dataclass, field

from vllm.distributed.ec_transfer.ec_connector.base import (
    ECConnectorMetadata,
    ECConnectorWorkerMetadata,
)

from sluice.vllm.attributes import AttributeValue

DescriptorTuple = tuple[int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """One feature that every worker must map, and is told of until it says so."""

    transfer: int  # acknowledged by this number
    descriptor: DescriptorTuple
    rows: int
    width: int
    dtype: str


@dataclass(frozen=True, slots=True)
class SaveSpec:
    """One feature that the writing rank stores if the arena lacks it."""

    rows: int
    modality: str
    attributes: dict[str, AttributeValue]


@dataclass(slots=True)
class SluiceStepMetadata(ECConnectorMetadata):  # type: ignore[misc]  # vLLM has no types here
    """Scheduler to workers, one step. All keys are item identifiers."""

    loads: dict[str, LoadSpec] = field(default_factory=dict)
    saves: dict[str, SaveSpec] = field(default_factory=dict)  # encoded in this step
    republish: dict[str, SaveSpec] = field(default_factory=dict)  # not encoded in this step


@dataclass(slots=True)
class SluiceWorkerMetadata(ECConnectorWorkerMetadata):  # type: ignore[misc]
    """Workers to scheduler, one step: by rank, what was mapped and what was counted so far."""

    acknowledged: dict[int, set[int]] = field(default_factory=dict)
    counters: dict[int, dict[str, int]] = field(default_factory=dict)

    def aggregate(self, other: ECConnectorWorkerMetadata) -> "SluiceWorkerMetadata":
        assert isinstance(other, SluiceWorkerMetadata)
        acknowledged = {rank: set(ids) for rank, ids in self.acknowledged.items()}
        for rank, ids in other.acknowledged.items():
            acknowledged.setdefault(rank, set()).update(ids)
        return SluiceWorkerMetadata(acknowledged, {**self.counters, **other.counters})
