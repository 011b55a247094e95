"""Real engines and references: an engine without a tower can only answer from the arena."""

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from counts import count
from deployment_fixture import Deployment, ask, reference
from engines import Reference
from pictures import picture

pytestmark = pytest.mark.engine
Tokens = tuple[tuple[str, float], ...]
UNKNOWN = count(40, full=1000)


def test_engine_without_a_tower_answers_as_one_that_encodes_itself(deployment: Deployment) -> None:
    photo = picture(0)
    entry = deployment.encode(photo)
    assert entry["state"] in ("published", "writing")
    expected = deployment.local_answer(photo)
    seen = ask(deployment.blind, [reference(photo, entry)], transfer={photo.uuid: entry})
    assert not seen.error, seen.error
    assert seen.tokens == expected.tokens
    # The answer depends on the picture, or equality would prove nothing.
    assert deployment.local_answer(picture(1)).tokens != expected.tokens


def test_unknown_references_fail_one_by_one_and_end_no_engine(deployment: Deployment) -> None:
    photo = picture(0)
    entry = deployment.encode(photo)
    expected = deployment.local_answer(photo)

    def unknown(number: int) -> str:
        name = f"nobody-made-{number}"
        return ask(deployment.blind, [Reference(name, entry["metadata"])]).error

    with ThreadPoolExecutor(8) as pool:
        errors = list(pool.map(unknown, range(UNKNOWN)))
    assert all(error.startswith("HTTP 500") for error in errors), set(errors)
    assert deployment.blind.healthy()
    seen = ask(deployment.blind, [reference(photo, entry)])
    assert seen.tokens == expected.tokens


def test_unknown_reference_beside_a_known_one_fails_the_whole_request(
    deployment: Deployment,
) -> None:
    photo = picture(0)
    entry = deployment.encode(photo)
    known, unknown = reference(photo, entry), Reference("nobody-made-this", entry["metadata"])
    assert ask(deployment.blind, [known, unknown]).error.startswith("HTTP 500")
    assert not ask(deployment.blind, [known]).error


def test_trap_13_streamed_failure_is_a_role_then_an_error_then_done(deployment: Deployment) -> None:
    """The status is 200 before anything is known: the first content is what counts."""
    entry = deployment.encode(picture(0))
    body = {
        "model": "m",
        "stream": True,
        "max_tokens": 4,
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this? "},
                    {
                        "type": "image_embeds",
                        "image_embeds": entry["metadata"],
                        "uuid": "nobody-made-this",
                    },
                ],
            }
        ],
    }
    request = urllib.request.Request(
        deployment.blind.http.address + "/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        status = reply.status
        events = [line[6:] for line in reply.read().decode().splitlines() if line[:6] == "data: "]
    assert status == 200
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert "error" in chunks[-1]
    for chunk in chunks[:-1]:
        for choice in chunk["choices"]:
            assert not choice["delta"].get("content")
            assert choice["finish_reason"] is None
    assert deployment.blind.healthy()


def test_eight_concurrent_requests_answer_as_one_by_one(deployment: Deployment) -> None:
    photos = [picture(number) for number in range(10, 14)]
    entries = [deployment.encode(photo) for photo in photos]
    expected = [deployment.local_answer(photo).tokens for photo in photos]

    def turn(number: int) -> tuple[int, Tokens, str]:
        which = number % len(photos)
        photo, entry = photos[which], entries[which]
        if number % 2:
            seen = ask(deployment.blind, [reference(photo, entry)])
        else:
            seen = ask(deployment.prefill, [photo])
        return which, seen.tokens, seen.error

    for _ in range(count(2, full=10)):
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(turn, range(8)))
        # In a batch the engine's own sums may round otherwise: tokens, not logprobs, are compared.
        for which, tokens, error in results:
            assert not error, error
            assert [name for name, _ in tokens] == [name for name, _ in expected[which]]


def test_counters_reach_vllms_metrics(deployment: Deployment) -> None:
    before = deployment.blind.metrics()
    photo = picture(20)
    entry = deployment.encode(photo)
    for _ in range(2):  # the second request's steps carry what was counted after the first
        assert not ask(deployment.blind, [reference(photo, entry)]).error
    after = deployment.blind.metrics()
    assert after["sluice_ec_loads"] == before["sluice_ec_loads"] + 1
    assert after["sluice_ec_hits"] == before["sluice_ec_hits"] + 2
    grid = entry["metadata"]["image_grid_thw"]
    rows = grid[0] * grid[1] * grid[2] // 4
    assert after["sluice_ec_load_bytes"] - before["sluice_ec_load_bytes"] == rows * 256 * 2
