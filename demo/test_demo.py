"""The demo's own parts: what it expects is right, and what it compares it really compares."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import cases
import engines
import evidence
import models
import photographs
import pytest
import report


@pytest.fixture(scope="module")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[models.Kind, Path]:
    folders = {kind: tmp_path_factory.mktemp(kind) / "model" for kind in models.KINDS}
    for kind, folder in folders.items():
        models.ensure_model(kind, folder)
    return folders


@pytest.mark.parametrize("kind", models.KINDS)
def test_the_expected_rows_are_those_of_the_real_image_processor(
    kind: models.Kind, model_folders: dict[models.Kind, Path], tmp_path: Path
) -> None:
    from PIL import Image
    from transformers import AutoImageProcessor

    load: Any = AutoImageProcessor.from_pretrained
    processor = load(model_folders[kind])
    shape = models.features(kind, models.Sizes())
    for name in photographs.FILES:
        picture = photographs.photograph(name)
        (tmp_path / name).write_bytes(picture.jpeg)
        with Image.open(tmp_path / name) as image:
            grid = processor(images=[image], return_tensors="pt")["image_grid_thw"][0]
        tokens = int(grid.prod()) // shape.merge_size**2
        assert shape.rows(picture.width_px, picture.height_px) == tokens, name


@pytest.mark.parametrize("kind", models.KINDS)
def test_a_model_is_made_once_and_made_anew_when_its_sizes_change(
    kind: models.Kind, tmp_path: Path
) -> None:
    weights = tmp_path / "m" / "model.safetensors"
    models.ensure_model(kind, weights.parent)
    first = weights.stat().st_mtime_ns, weights.read_bytes()
    models.ensure_model(kind, weights.parent)
    assert weights.stat().st_mtime_ns == first[0]
    shape = models.ensure_model(kind, weights.parent, models.Sizes(width=384))
    assert shape.width == 384
    assert weights.read_bytes() != first[1]


def test_the_blind_copy_differs_in_its_vision_tower_only(
    model_folders: dict[models.Kind, Path],
) -> None:
    from safetensors.torch import load_file

    folder = model_folders["qwen3_vl"]
    seeing = load_file(folder / "model.safetensors")
    blind = load_file(models.blind_folder(folder) / "model.safetensors")
    assert seeing.keys() == blind.keys()
    towers = {name for name in seeing if "visual" in name}
    assert towers
    for name, weight in blind.items():
        if name in towers:
            assert bool(weight.isnan().all()), name
        else:
            assert bool((weight == seeing[name]).all()), name


def test_a_width_that_no_head_divides_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 128"):
        models.Sizes(width=300)


def test_the_support_for_torchvision_may_be_run_twice() -> None:
    support = Path(models.__file__).parent / "support"
    script = f"""
import runpy
for _ in range(3):
    runpy.run_path({str(support / "sitecustomize.py")!r})
import torchvision.transforms
runpy.run_path({str(support / "sitecustomize.py")!r})
"""
    environment = {**os.environ, "PYTHONPATH": str(support)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment, timeout=120)


def test_a_photograph_is_named_by_its_bytes() -> None:
    pictures = [photographs.photograph(name) for name in photographs.FILES]
    assert len({picture.uuid for picture in pictures}) == len(pictures)
    again = photographs.photograph.__wrapped__("astronaut")
    assert again.uuid == photographs.photograph("astronaut").uuid


def test_the_cases_do_not_contradict_each_other() -> None:
    """What a turn stores is new to the arena, and what it loads is what the conversation shows."""
    stored: set[str] = set()
    for case in cases.CASES:
        shown: list[str] = []
        for turn in case.turns:
            shown += turn.images
            assert set(turn.loaded) == set(shown), case.title
            assert len(turn.loaded) == len(set(turn.loaded)), case.title
            assert not stored & set(turn.stored), case.title
            stored |= set(turn.stored)
            assert set(shown) <= stored, case.title
            assert turn.encodes_skipped == len(set(shown) - set(turn.stored)), case.title


def test_every_difference_of_the_counts_is_named() -> None:
    expected = {"encoder": Counter(saves=1), "tower": Counter(loads=1)}
    seen = {"encoder": Counter(saves=1), "tower": Counter(loads=1, local_encodes=1)}
    assert evidence.differences(expected, expected) == []
    assert evidence.differences(expected, seen) == ["tower: local_encodes is 1, not 0"]
    assert evidence.differences(seen, expected) == ["tower: local_encodes is 0, not 1"]
    assert evidence.differences(expected, {"encoder": Counter(saves=1)}) == [
        "tower: loads is 0, not 1"
    ]


class OneBoard:
    """A client whose only neighbour posts the given counters."""

    def __init__(self, **counters: int) -> None:
        self.counters = counters

    def clients(self) -> list[dict[str, Any]]:
        board = json.dumps({"sluice_vllm": 1, "counters": self.counters})
        return [
            {"alive": True, "pid": os.getpid(), "board": board},
            {"alive": False, "pid": os.getpid(), "board": board},
            {"alive": True, "pid": os.getpid(), "board": ""},
            {"alive": True, "pid": 1, "board": board},
        ]


def test_a_count_of_a_later_turn_or_after_the_last_one_is_noticed() -> None:
    client = OneBoard(loads=3, load_us=17, attaches=1)
    parent = os.getppid()
    ledger = evidence.Ledger(client, {parent: "tower"})  # type: ignore[arg-type]
    ledger.begin()
    client.counters["loads"] = 4
    turn, wrong = ledger.settle({"tower": Counter(loads=1)})
    assert (turn, wrong) == ({"tower": Counter(loads=1)}, [])
    client.counters["loads"] = 5
    assert ledger.finish() == ["tower: loads is 2, not 1"]


def test_a_conversation_becomes_messages_with_media_or_with_references() -> None:
    picture = photographs.photograph("rocket")
    grid = {"image_grid_thw": [1, 22, 32]}
    said = [
        engines.Said("one", [picture], answer="yes"),
        engines.Said("two", [engines.Reference("abc", grid)]),
    ]
    sent = engines.messages(said)
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[0]["content"][1]["uuid"] == picture.uuid
    assert sent[0]["content"][1]["image_url"]["url"] == picture.url
    assert sent[2]["content"][1] == {"type": "image_embeds", "image_embeds": grid, "uuid": "abc"}


def test_an_engine_that_is_not_there_is_an_error_in_the_answer() -> None:
    answer = engines.Engine("nobody", "http://127.0.0.1:9").ask([engines.Said("hello", [])])
    assert answer.error
    assert not answer.tokens


def test_a_bad_turn_shows_in_its_row() -> None:
    turn = report.TurnReport("one image", equal={"tower": True, "blind": False})
    turn.problems.append("tower: local_encodes is 1, not 0")
    text = report.row(turn)
    assert "DIFFER" in text
    assert "! tower: local_encodes is 1, not 0" in text
    assert not turn.good
    assert len(report.header().splitlines()[0]) == len(text.splitlines()[0])
