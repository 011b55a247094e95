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
ROUNDS = count(2, full=5)


@pytest.fixture
def small(model: Path, stage: Stage) -> Deployment:
    """1 MiB holds 30 features of 32 KiB; the encoder's own cache holds them all."""
    return stage.show(
        "small",
        lambda: Deployment(
            model, ArenaProcess("1MiB"), LOGS / "engines-small", allow_small_arena=True
        ),
    )


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
