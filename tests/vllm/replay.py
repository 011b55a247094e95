"""One engine without a model: vLLM's real Scheduler, the real connectors, and replayed workers.

What the scheduler plans goes to every worker's replay of a model runner, and what those answer goes
back, as in vLLM's executor and engine loop. world.py has the runner with an encoder cache,
kv_world.py the one with paged KV caches.
"""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from vllm.config import VllmConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import KVCacheConfig
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager


class EngineDied(AssertionError):
    """What a real engine would not have survived."""


@dataclass
class Step:
    output: SchedulerOutput
    result: ModelRunnerOutput
    meta: Any  # what the connector's scheduler side gave the workers

    @property
    def scheduled(self) -> dict[str, int]:
        return dict(self.output.num_scheduled_tokens)


class Replay:
    """A context manager. Its kinds make `workers`, merge their answers and sample tokens.

    Failure: AssertionError, with what has ended, when something takes too long.
    """

    workers: Sequence[Any]  # each with its connector, and run(output) for one planned step
    connector: Any  # the scheduler's

    def __init__(self, config: VllmConfig, cache: KVCacheConfig) -> None:
        self.config = config
        block_size = cache.kv_cache_groups[0].kv_cache_spec.block_size
        config.cache_config.num_gpu_blocks = cache.num_blocks
        self.scheduler = Scheduler(
            config, cache, StructuredOutputManager(config), block_size=block_size
        )
        self.scheduler.scheduler_reserve_full_isl = False
        self.finished: dict[str, Any] = {}  # request id -> EngineCoreOutput
        self.answers: dict[str, list[int]] = {}

    @property
    def worker(self) -> Any:
        return self.workers[0]

    def add(self, *requests: Request) -> None:
        for one in requests:
            self.scheduler.add_request(one)

    def step(self) -> Step:
        return self.finish(self.scheduler.schedule())

    def finish(self, output: SchedulerOutput) -> Step:
        """Runs the workers on a planned step and hands the result back."""
        return self.deliver(output, [worker.run(output) for worker in self.workers])

    def deliver(self, output: SchedulerOutput, results: list[ModelRunnerOutput]) -> Step:
        result = self._merge([copy.copy(one) for one in results])  # an empty one is shared
        if result.sampled_token_ids:
            for index, request_id in enumerate(result.req_ids):
                known = self.scheduler.requests.get(request_id)
                done = known is not None and known.num_computed_tokens >= known.num_tokens
                tokens = [self._sample(list(known.all_token_ids))] if done else []
                result.sampled_token_ids[index] = tokens
        for batch in self.scheduler.update_from_output(output, result).values():
            for one in batch.outputs:
                self.answers.setdefault(one.request_id, []).extend(one.new_token_ids)
                if one.finish_reason is not None:
                    self.finished[one.request_id] = one
        return Step(output, result, self._meta(output))

    def run_until(self, done: Callable[[], bool], seconds: float = 60.0) -> list[Step]:
        """Steps until `done()`; fails when that takes too long."""
        out = []
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            out.append(self.step())
            if done():
                return out
            if not out[-1].scheduled:
                time.sleep(0.001)  # as the engine's loop, when nothing was run
        raise AssertionError(f"not done after {len(out)} steps; finished {list(self.finished)}")

    def serve(self, *requests: Request) -> list[Step]:
        """Adds the requests and steps until all of them have ended."""
        self.add(*requests)
        wanted = {one.request_id for one in requests}
        return self.run_until(lambda: wanted <= self.finished.keys())

    def close(self) -> None:
        for worker in self.workers:
            worker.connector.shutdown()
        self.scheduler.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- of each kind ---

    def _merge(self, results: list[ModelRunnerOutput]) -> ModelRunnerOutput:
        """As vLLM's executor."""
        raise NotImplementedError

    def _meta(self, output: SchedulerOutput) -> Any:
        raise NotImplementedError

    def _sample(self, tokens: list[int]) -> int:
        """The token after these."""
        raise NotImplementedError

    # --- looking in ---

    def counted(self, name: str) -> int:
        """A count, summed over the processes of this engine."""
        sides = [self.connector._scheduler, *(w.connector._worker for w in self.workers)]
        return sum(side._counters.get(name) for side in sides if side is not None)

    def await_count(self, name: str, value: int, seconds: float = 15.0) -> None:
        """Waits for what a helper thread counts after the fact; it must be exactly `value`."""
        deadline = time.monotonic() + seconds
        while self.counted(name) < value and time.monotonic() < deadline:
            time.sleep(0.005)
        assert self.counted(name) == value, f"{name} is {self.counted(name)}, not {value}"


def config_of(model: Any, ranks: int, **engine: Any) -> VllmConfig:
    """Of an engine whose ranks are replayed, not started."""
    settings = {"max_model_len": 4096, "max_num_seqs": 8, "enable_prefix_caching": False, **engine}
    args = EngineArgs(model=str(model), dtype="bfloat16", enforce_eager=True, **settings)
    config = args.create_engine_config()
    config.parallel_config.tensor_parallel_size = ranks
    return config


def rank_config(config: VllmConfig, rank: int) -> VllmConfig:
    """As vLLM's worker: the same configuration with this worker's rank."""
    out = copy.copy(config)
    out.parallel_config = copy.copy(config.parallel_config)
    out.parallel_config.rank = rank
    return out
