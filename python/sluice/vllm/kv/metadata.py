"""What the scheduler's connector tells the workers' connectors each step.

Plain values only: these objects cross process borders inside vLLM's own messages.
"""

from dataclasses import dataclass, field

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorMetadata


@dataclass(frozen=True, slots=True)
class SaveJob:
    """Blocks of one request that are complete when this step has run."""

    handoff: str
    generation: int
    first_block: int  # of the request
    block_ids: tuple[int, ...]  # in the engine's cache
    final: bool  # the prompt ends here: commit
    tokens: int  # of the prompt
    digest: str


@dataclass(frozen=True, slots=True)
class LoadJob:
    """A hand-off to copy into blocks that are allocated and that nobody else uses yet."""

    request_id: str
    handoff: str
    generation: int  # while it is written: the first that may still be there
    ranks: int | None  # that wrote it; None: it is still written, and its parts say how many
    tokens: int
    digest: str
    first_block: int  # of the request; what lies before is in the engine's prefix cache
    block_ids: tuple[int, ...]  # from first_block on


@dataclass(slots=True)
class SluiceKVStepMetadata(KVConnectorMetadata):  # type: ignore[misc]  # vLLM has no types here
    """Scheduler to workers, one step."""

    saves: list[SaveJob] = field(default_factory=list)
    ended: dict[str, bool] = field(default_factory=dict)  # hand-off -> was it committed?
    loads: list[LoadJob] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)  # requests whose loads nobody waits for
    idle: bool = False  # the step computes nothing
