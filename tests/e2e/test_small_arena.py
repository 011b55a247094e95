"""An arena much smaller than the engines' caches: what is reported present can be read, always."""

from pathlib import Path

import pytest
from arena_process import ArenaProcess
from counts import LOGS, count
from deployment_fixture import Deployment, ask, reference
from pictures import picture
from stage import Stage

pytestmark = pytest.mark.engine
PICTURES = count(60, full=200)
CACHE_FLAGS = ("--max-num-batched-tokens", "16384")  # rows of the encoder cache, too
ROUNDS = count(2, full=5)


@pytest.fixture
def small(model: Path, stage: Stage) -> Deployment:
    """1 MiB holds fewer than 30 features of 64 rows; each engine's own cache holds all of them."""

    def make() -> Deployment:
        logs = LOGS / "engines-small"
        return Deployment(model, ArenaProcess("1MiB"), logs, CACHE_FLAGS, allow_small_arena=True)

    return stage.show("small", make)


def test_what_is_reported_can_be_read_although_the_arena_forgets(small: Deployment) -> None:
    from sluice import _core

    client = _core.Client.attach(directory=small.arena.directory, label="test")
    absent = 0
    for _ in range(ROUNDS):
        for number in range(PICTURES):
            photo = picture(number)
            entry = small.encode(photo)
            if entry["state"] == "absent":
                absent += 1
                assert "metadata" not in entry
                continue
            seen = ask(small.blind, [reference(photo, entry)], transfer={photo.uuid: entry})
            assert not seen.error, (number, entry, seen.error)
    assert absent == 0
    stats = client.stats()
    assert stats["evictions_total"] > PICTURES  # the arena did forget
    counters = small.encoder.metrics()
    assert counters["sluice_ec_republished"] > 0  # and the encoder's cache gave it back
    client.close()


def test_answers_stay_right_while_the_arena_forgets(small: Deployment) -> None:
    for number in range(0, PICTURES, 10):
        photo = picture(number)
        expected = small.local_answer(photo)
        seen = ask(small.blind, [reference(photo, small.encode(photo))])
        assert seen.tokens == expected.tokens, seen.error
