"""Engines that start and end together on one arena, and what tests look at in all of them."""

import contextlib
import functools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from arena_process import ArenaProcess
from engine_process import EngineOptions, EngineProcess
from sluice import _core
from waiting import until

# Of every hand-off, docs/formats/kv-handoff.md.
HANDOFFS = (
    "sluice1@tenant:default@kind:kv_handoff@model:kv@revision:1@encoder:none@dtype:uint8@"
    "layout:replicated@id:"
)

# Each look may be a request to an engine.
wait_until = functools.partial(until, seconds=60.0, poll_s=0.02)


class EngineGroup:
    """Owns the arena and the engines. A context manager: entered when all engines answer.

    A kind of group starts its engines in its constructor, and what needs them in begin(); what that
    made is ended in end(). Every part is ended whatever became of the others.
    """

    def __init__(self, arena: ArenaProcess, log_folder: Path) -> None:
        self.arena = arena
        self.engines: list[EngineProcess] = []
        self._log_folder = log_folder
        self._client: _core.Client | None = None

    def start(self, options: EngineOptions) -> EngineProcess:
        engine = EngineProcess(options, self._log_folder)
        self.engines.append(engine)
        return engine

    def begin(self) -> None:
        """Called when all engines answer."""

    def end(self, kill: bool) -> None:
        with contextlib.ExitStack() as last:
            last.callback(self.arena.close)
            pool = last.enter_context(ThreadPoolExecutor())
            for engine in self.engines:
                last.callback(pool.submit(engine.kill if kill else engine.stop).result)
            if self._client is not None:
                last.callback(self._client.close)

    def __enter__(self) -> Self:
        try:
            for engine in self.engines:
                engine.wait_ready()
            self.begin()
        except BaseException:
            self.end(kill=True)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(kill=False)

    # --- looking in ---

    @property
    def client(self) -> _core.Client:
        """The tests' own, of the arena."""
        if self._client is None:
            self._client = _core.Client.attach(directory=self.arena.directory, label="test")
        return self._client

    def blocks_in_use(self) -> float:
        """Summed over the engines: the shares of their KV blocks that requests hold."""
        return sum(engine.blocks_in_use() for engine in self.engines)

    def handoff_keys(self) -> list[str]:
        """Of all parts and commits that are in the arena."""
        return [one["key"] for one in self.client.list(HANDOFFS)]

    def await_no_handoff(self) -> None:
        wait_until(lambda: not self.handoff_keys(), "no hand-off is left in the arena")

    def await_blocks(self) -> None:
        wait_until(lambda: self.blocks_in_use() == 0, "all KV blocks are free")

    def await_idle(self) -> None:
        """No request holds a block, and no hand-off is in the arena."""
        self.await_blocks()
        self.await_no_handoff()
