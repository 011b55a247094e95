"""An arena much smaller than the engines' caches: what is reported present can be read, always."""

from collections.abc import Iterator

import pytest
from counts import count
from deployment_fixture import Deployment, ask, reference
from pictures import picture

pytestmark = pytest.mark.engine
PICTURES = count(60, full=200)
ROUNDS = count(2, full=5)


@pytest.fixture
def small(deployment: Deployment) -> Iterator[Deployment]:
    """1 MiB holds fewer than 30 features of 64 rows; each engine's own cache holds all of them."""
    with deployment.arena_of("1MiB"):
        for engine in deployment.engines:
            engine.http.empty_encoder_cache()
        yield deployment


def test_what_is_reported_can_be_read_although_the_arena_forgets(small: Deployment) -> None:
    from sluice import _core

    client = _core.Client.attach(directory=small.arena.directory, label="test")
    republished = small.encoder.metrics()["sluice_ec_republished"]
    absent: list[tuple[int, int]] = []  # round, picture
    for turn in range(ROUNDS):
        for number in range(PICTURES):
            photo = picture(number)
            entry = small.encode(photo)
            if entry["state"] == "absent":
                absent.append((turn, number))
                assert "metadata" not in entry
                continue
            seen = ask(small.blind, [reference(photo, entry)], transfer={photo.uuid: entry})
            assert not seen.error, (number, entry, seen.error)
    assert absent == []
    stats = client.stats()
    assert stats["evictions_total"] > PICTURES  # the arena did forget
    counters = small.encoder.metrics()
    assert counters["sluice_ec_republished"] > republished  # and the encoder's cache gave it back
    client.close()


def test_answers_stay_right_while_the_arena_forgets(small: Deployment) -> None:
    for number in range(0, PICTURES, 10):
        photo = picture(number)
        expected = small.local_answer(photo)
        seen = ask(small.blind, [reference(photo, small.encode(photo))])
        assert seen.tokens == expected.tokens, seen.error
