"""`sluice doctor`: finds what is wrong and says how to repair it."""

import json
from pathlib import Path
from typing import Any

import pytest
from arena_daemon import ArenaDaemon
from programs import Sluice

BASE = """
[arena]
name = "doctor-test"
size = "{size}"
[engine-defaults]
model = "{model}"
command = ["true"]
[[engine]]
name = "encoder"
role = "{first}"
port = 1
args = [{args}]
connector = {{ {connector} }}
[[engine]]
name = "pd"
role = "{second}"
port = 2
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    config = {
        "text_config": {"hidden_size": 2048},
        "vision_config": {"deepstack_visual_indexes": [5, 11, 17]},
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def examine(sluice_program: Path, tmp_path: Path, model: Path) -> Any:
    """Runs doctor on a topology with one thing changed; (exit code, findings)."""

    def run(**changes: str) -> tuple[int, list[dict[str, str]]]:
        values = {
            "size": "512MiB",
            "model": str(model),
            "first": "encoder",
            "second": "prefill_decode",
            "args": "",
            "connector": "",
        }
        file = tmp_path / "topology.toml"
        file.write_text(BASE.format(**{**values, **changes}))
        done = Sluice(sluice_program, "")("doctor", file, "--json", code=None)
        return done.code, done.json()["findings"]

    return run


def problems(findings: list[dict[str, str]]) -> list[dict[str, str]]:
    return [one for one in findings if one["level"] == "problem"]


def test_a_sound_topology_has_no_problem(examine: Any) -> None:
    code, findings = examine()
    assert problems(findings) == []
    assert code == 0
    # 8192 tokens x 2048 x (1 + 3 DeepStack levels) x 2 bytes, for two engines, and once in flight.
    assert any("128.0 MiB" in one["what"] for one in findings)
    assert any("384.0 MiB" in one["what"] for one in findings)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"second": "prefill"}, "hand KV off and none takes it"),
        ({"second": "decode"}, "take KV over and none hands it off"),
        (
            {"first": "prefill", "second": "decode", "args": '"--block-size", "64"'},
            "--block-size of 'encoder' is 64 and of 'pd' the default",
        ),
        ({"size": "64MiB"}, "less than the 384.0 MiB"),
        ({"first": "prefill_decode"}, "none produces"),
        ({"second": "encoder"}, "none consumes"),
        ({"args": '"--mm-processor-cache-gb", "0"'}, "mm-processor-cache-gb"),
        ({"args": '"--mm-processor-cache-gb=0"'}, "mm-processor-cache-gb"),
        ({"args": '"--scheduling-policy", "priority"'}, "priority"),
        ({"args": '"--model", "x"', "connector": 'tenant = "a"'}, "connector.tenant differs"),
        ({"size": "100000GiB"}, "the arena needs"),
    ],
)
def test_each_problem_is_found_and_comes_with_its_fix(
    examine: Any, changes: dict[str, str], what: str
) -> None:
    code, findings = examine(**changes)
    found = problems(findings)
    assert any(what in one["what"] for one in found), found
    assert all(one["fix"] for one in found)
    assert code == 1


def test_fewer_batched_tokens_need_less(examine: Any) -> None:
    code, findings = examine(size="64MiB", args='"--max-num-batched-tokens", "1024"')
    # 16 MiB for the encoder, 128 MiB for the other engine: still too small, and the figures say so.
    assert any("16.0 MiB" in one["what"] for one in findings)
    assert code == 1


def test_a_broken_topology_is_exit_78(sluice_program: Path, tmp_path: Path) -> None:
    file = tmp_path / "topology.toml"
    file.write_text("[arena]\nsise = 1\n")
    refused = Sluice(sluice_program, "")("doctor", file, code=78)
    assert f"{file}:2" in refused.err
    assert "did you mean 'size'" in refused.err


def test_a_python_that_is_not_there_is_a_problem(sluice: Sluice) -> None:
    done = sluice("doctor", "--no-measure", "--json", "--python", "/nowhere/python", code=1)
    found = problems(done.json()["findings"])
    assert [one["area"] for one in found] == ["python"]
    assert "/nowhere/python" in found[0]["what"]


def test_a_running_arena_is_measured_and_its_transfers_counted(
    sluice: Sluice, daemon: ArenaDaemon
) -> None:
    import sluice as package
    import torch

    with package.connect(directory=daemon.directory, timeout=10) as client:
        client.put("photo", torch.ones(1000))
        for _ in range(3):
            client.get("photo")
        report = sluice("doctor", "--json", "--python", "/nowhere/python", code=1).json()
    assert report["daemon"] is True
    assert report["transfers_seen"] >= 3
    speed = {one["path"]: one["megabytes_per_second"] for one in report["speed"]}
    for path in ("memcpy", "put", "get, verified and copied"):
        assert speed[path] > 0


def test_without_a_daemon_doctor_says_how_to_start_one(
    sluice_program: Path, tmp_path: Path
) -> None:
    sluice = Sluice(sluice_program, str(tmp_path / "arena"))
    words = ("--python", "/nowhere/python", "--timeout", "500ms")
    done = sluice("doctor", "--json", *words, code=1)
    daemon = [one for one in problems(done.json()["findings"]) if one["area"] == "daemon"]
    assert len(daemon) == 1
    assert "sluiced" in daemon[0]["fix"]
