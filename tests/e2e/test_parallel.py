"""A prefill at tensor-parallel size 2 takes features from an encoder at size 1.

It is compared with a colocated engine of size 2 whose vision tower runs as at size 1
(`--mm-encoder-tp-mode data`), because sums that are split otherwise round otherwise.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from arena_process import ArenaProcess
from counts import LOGS
from deployment_fixture import ask
from engine_process import EngineOptions, EngineProcess
from pictures import picture

pytestmark = pytest.mark.engine
PARALLEL = ("--tensor-parallel-size", "2")
BINDING = {"VLLM_CPU_OMP_THREADS_BIND": "0|1"}


@pytest.fixture(scope="module")
def engines(model: Path, arena: ArenaProcess) -> Iterator[dict[str, EngineProcess]]:
    """`encoder` at size 1, `prefill` at size 2, and `alone` at size 2 without a connector."""
    folder = LOGS / "engines-parallel"
    started = {
        "encoder": EngineOptions("encoder", model, "ec_producer", arena.directory),
        "prefill": EngineOptions(
            "prefill", model, "ec_consumer", arena.directory, flags=PARALLEL, environment=BINDING
        ),
        "alone": EngineOptions(
            "alone",
            model,
            flags=(*PARALLEL, "--mm-encoder-tp-mode", "data"),
            environment=BINDING,
        ),
    }
    running = {name: EngineProcess(options, folder) for name, options in started.items()}
    try:
        for engine in running.values():
            engine.wait_ready()
        yield running
    finally:
        for engine in running.values():
            engine.stop()


def test_size_two_loads_what_size_one_encoded_and_answers_equally(
    engines: dict[str, EngineProcess],
) -> None:
    pictures = [picture(number) for number in (60, 61, 62)]
    for photo in pictures:
        encoded = ask(engines["encoder"], [photo], tokens=1)
        assert encoded.transfer[photo.uuid]["state"] in ("published", "writing"), encoded.error
    for photo in pictures:
        expected = ask(engines["alone"], [photo])
        seen = ask(engines["prefill"], [photo])
        assert not seen.error, seen.error
        assert seen.tokens == expected.tokens
    ask(engines["prefill"], [])  # its steps carry what was counted last
    counted = engines["prefill"].metrics()
    assert counted["sluice_ec_loads"] == 2 * len(pictures)  # each rank maps each feature
    assert counted["sluice_ec_local_encodes"] == 0
