"""A prefill at tensor-parallel size 2 takes features from an encoder at size 1.

It is compared with a colocated engine of size 2 whose vision tower runs as at size 1
(`--mm-encoder-tp-mode data`), because sums that are split otherwise round otherwise.
"""

from pathlib import Path
from typing import Self

import pytest
from arena_process import ArenaProcess
from counts import LOGS
from deployment_fixture import ask
from engine_process import EngineOptions, EngineProcess, Role
from pictures import picture
from stage import Stage

pytestmark = pytest.mark.engine
PARALLEL = ("--tensor-parallel-size", "2")
BINDING = {"VLLM_CPU_OMP_THREADS_BIND": "0|1"}


class Parallel:
    """`encoder` at size 1, `prefill` at size 2, and `alone` at size 2 without a connector."""

    def __init__(self, model: Path) -> None:
        self.arena = ArenaProcess("64MiB")
        alone = (*PARALLEL, "--mm-encoder-tp-mode", "data")
        self.encoder = self._start("encoder", model, "ec_producer")
        self.prefill = self._start("prefill", model, "ec_consumer", PARALLEL, BINDING)
        self.alone = self._start("alone", model, None, alone, BINDING)
        self.engines = [self.encoder, self.prefill, self.alone]

    def _start(
        self,
        name: str,
        model: Path,
        role: Role | None,
        flags: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> EngineProcess:
        options = EngineOptions(
            name, model, role, self.arena.directory, flags=flags, environment=environment or {}
        )
        return EngineProcess(options, LOGS / "engines-parallel")

    def __enter__(self) -> Self:
        try:
            for engine in self.engines:
                engine.wait_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for engine in self.engines:
            engine.kill()
        self.arena.close()


@pytest.fixture
def parallel(model: Path, stage: Stage) -> Parallel:
    return stage.show("parallel", lambda: Parallel(model))


def test_size_two_loads_what_size_one_encoded_and_answers_equally(
    parallel: Parallel,
) -> None:
    pictures = [picture(number) for number in (60, 61, 62)]
    for photo in pictures:
        encoded = ask(parallel.encoder, [photo], tokens=1)
        assert encoded.transfer[photo.uuid]["state"] in ("published", "writing"), encoded.error
    for photo in pictures:
        expected = ask(parallel.alone, [photo])
        seen = ask(parallel.prefill, [photo])
        assert not seen.error, seen.error
        assert seen.tokens == expected.tokens
    ask(parallel.prefill, [])  # its steps carry what was counted last
    counted = parallel.prefill.metrics()
    assert counted["sluice_ec_loads"] == 2 * len(pictures)  # each rank maps each feature
    assert counted["sluice_ec_local_encodes"] == 0
