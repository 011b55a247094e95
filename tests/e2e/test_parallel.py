"""A prefill at tensor-parallel size 2 takes features from an encoder at size 1.

It is compared with a colocated engine of size 2 whose vision tower runs as at size 1
(`--mm-encoder-tp-mode data`), because sums that are split otherwise round otherwise.
"""

from pathlib import Path

import pytest
from arena_process import ArenaProcess
from counts import LOGS
from deployment_fixture import ask
from engine_group import EngineGroup
from engine_process import EngineOptions, EngineProcess, Role
from pictures import picture
from stage import Stage

pytestmark = pytest.mark.engine
PARALLEL = ("--tensor-parallel-size", "2")
BINDING = {"VLLM_CPU_OMP_THREADS_BIND": "0|1"}


class Parallel(EngineGroup):
    """`encoder` at size 1, `prefill` at size 2, and `alone` at size 2 without a connector."""

    def __init__(self, model: Path) -> None:
        super().__init__(ArenaProcess("64MiB"), LOGS / "engines-parallel")

        def engine(name: str, role: Role | None, *flags: str) -> EngineProcess:
            binding = BINDING if flags else {}
            return self.start(
                EngineOptions(
                    name, model, role, self.arena.directory, flags=flags, environment=binding
                )
            )

        self.encoder = engine("encoder", "ec_producer")
        self.prefill = engine("prefill", "ec_consumer", *PARALLEL)
        self.alone = engine("alone", None, *PARALLEL, "--mm-encoder-tp-mode", "data")


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
