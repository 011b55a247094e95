"""Every command in a pipe: plain text without colour, and JSON on request."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from arena_daemon import ArenaDaemon
from programs import Sluice
from terminal import terminal_output

COMMANDS: list[list[str]] = [
    ["ls"],
    ["stat"],
    ["stat", "photo"],
    ["top"],
    ["bench", "--size", "4K", "--time", "5ms"],
    ["config"],
    ["doctor", "--no-measure", "--python", "/usr/bin/python3"],
]


@pytest.fixture
def filled(sluice: Sluice, tmp_path: Path) -> Sluice:
    np.save(tmp_path / "in.npy", np.ones((3, 4), dtype="<f4"))
    sluice("put", "photo", tmp_path / "in.npy")
    return sluice


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_piped_text_is_plain(filled: Sluice, words: list[str]) -> None:
    done = filled(*words, code=None)
    assert done.code in {0, 1}
    assert done.text.strip()
    assert b"\x1b" not in done.out


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_json_is_one_value_on_one_line(filled: Sluice, words: list[str]) -> None:
    done = filled(*words, "--json", code=None)
    assert done.code in {0, 1}
    assert isinstance(done.json(), dict)
    assert len(done.lines) == 1


def test_put_get_and_rm_answer_with_json(filled: Sluice, tmp_path: Path) -> None:
    put = filled("put", "again", tmp_path / "in.npy", "--json").json()
    assert put["outcome"] == "published"
    assert put["data_bytes"] == 48
    got = filled("get", "again", tmp_path / "out.npy", "--json").json()
    assert got["data_bytes"] == 48
    assert filled("rm", "again", "--json").json()["removed"] == 1


def test_errors_in_json_carry_a_code(filled: Sluice) -> None:
    refused = filled("stat", "missing", "--json", code=1)
    assert refused.out == b""
    assert json.loads(refused.err)["error"] == "not_found"


def test_stat_counts_what_happened(filled: Sluice, tmp_path: Path) -> None:
    filled("put", "photo", tmp_path / "in.npy")
    arena = filled("stat", "--json").json()["arena"]
    assert arena["published_total"] == 1
    assert arena["duplicates_total"] == 1
    assert arena["objects"] == 1
    stat = filled("stat", "photo", "--json").json()
    assert stat["state"] == "verified"
    assert stat["tensors"] == [
        {
            "name": "tensor",
            "dtype": "float32",
            "shape": [3, 4],
            "data_bytes": 48,
            "data_offset": stat["tensors"][0]["data_offset"],
        }
    ]


def test_top_repeats_as_often_as_asked(filled: Sluice) -> None:
    done = filled("top", "--count", "3", "--interval", "1ms", "--json")
    assert [json.loads(line)["arena"]["objects"] for line in done.lines] == [1, 1, 1]


def test_a_terminal_gets_colour_unless_it_is_unwanted(
    filled: Sluice, sluice_program: Path, daemon: ArenaDaemon
) -> None:
    command = [str(sluice_program), "--directory", daemon.directory, "ls"]
    assert b"\x1b[" in terminal_output(command, NO_COLOR="")
    assert b"\x1b[" not in terminal_output(command, NO_COLOR="1")
    assert b"\x1b[" not in terminal_output(command, TERM="dumb")


def test_top_on_a_terminal_is_refreshed(
    filled: Sluice, sluice_program: Path, daemon: ArenaDaemon
) -> None:
    command = [str(sluice_program), "--directory", daemon.directory, "top", "--count", "2"]
    out = terminal_output([*command, "--interval", "1ms"])
    assert out.count(b"\x1b[2J") == 2
    assert b"ctrl-c" in out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_command(sluice: Sluice, shell: str) -> None:
    script = sluice("completion", shell).text
    for name in ["up", "doctor", "ls", "stat", "put", "get", "rm", "top", "bench", "config"]:
        assert name in script


def test_the_bash_completion_completes(sluice: Sluice, sluice_program: Path) -> None:
    script = sluice("completion", "bash").text
    probe = script + (
        "COMP_WORDS=(sluice do); COMP_CWORD=1; _sluice; echo ${COMPREPLY[@]}\n"
        "COMP_WORDS=(sluice up --dry); COMP_CWORD=2; _sluice; echo ${COMPREPLY[@]}\n"
        "COMP_WORDS=(sluice completion z); COMP_CWORD=2; _sluice; echo ${COMPREPLY[@]}\n"
    )
    done = subprocess.run(
        ["bash", "--norc"], input=probe, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["doctor", "--dry-run", "zsh"], done


def test_a_reader_that_leaves_early_ends_the_program_quietly(
    filled: Sluice, sluice_program: Path, daemon: ArenaDaemon
) -> None:
    command = f"'{sluice_program}' --directory '{daemon.directory}' --help | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
