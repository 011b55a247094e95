"""What a person gets wrong: each mistake has its exit code and a sentence that says what to do."""

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from arena_daemon import ArenaDaemon
from programs import Outcome, Sluice

Run = Callable[..., Outcome]


def test_a_wrong_key_gets_the_nearest_one(sluice: Sluice, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.ones(4))
    empty = sluice("get", "chelsea", tmp_path / "out.npy", code=1)
    assert "the arena is empty" in empty.err
    sluice("put", "chelsea", tmp_path / "in.npy")
    for words in (["get", "chelsae", tmp_path / "out.npy"], ["stat", "chelsae"], ["rm", "chelsae"]):
        assert "did you mean 'chelsea'" in sluice(*words, code=1).err
    assert "sluice ls" in sluice("stat", "something-else-entirely", code=1).err


def test_a_missing_daemon_is_named_with_how_to_start_one(
    sluice_program: Path, tmp_path: Path
) -> None:
    sluice = Sluice(sluice_program, str(tmp_path / "arena"))
    for words in (["ls"], ["stat"], ["rm", "k"], ["top"], ["bench"]):
        refused = sluice(*words, "--timeout", "500ms", code=1)
        assert "no daemon serves arena" in refused.err
        assert "sluiced --directory" in refused.err
        assert "sluice up" in refused.err


def test_a_killed_daemon_is_told_from_a_slow_one(
    sluice: Sluice, daemon: ArenaDaemon, tmp_path: Path
) -> None:
    np.save(tmp_path / "in.npy", np.ones(4))
    sluice("put", "before", tmp_path / "in.npy")
    daemon.kill()
    refused = sluice("put", "after", tmp_path / "in.npy", "--timeout", "2s", code=1)
    assert "no daemon serves arena" in refused.err
    daemon.start()
    assert sluice("ls").lines == ["before"]
    sluice("get", "before", tmp_path / "out.npy")
    assert np.array_equal(np.load(tmp_path / "out.npy"), np.ones(4))


@pytest.mark.parametrize(
    "words",
    [
        ["lss"],
        ["get"],
        ["rm"],
        ["rm", "k", "--prefix", "p"],
        ["ls", "--no-such-flag"],
        ["put", "k", "f", "--soft-pin", "10"],
        ["stat", "sluice1@broken"],
        ["up"],
        [],
    ],
)
def test_a_wrong_command_line_is_exit_2(
    sluice_program: Path, daemon: ArenaDaemon, words: list[str]
) -> None:
    refused = Sluice(sluice_program, daemon.directory)(*words, code=2)
    assert refused.err


@pytest.mark.usefixtures("clean_environment")
def test_sluiced_exit_codes(run_daemon: Run, daemon: ArenaDaemon, tmp_path: Path) -> None:
    assert run_daemon("--no-such-flag").code == 2
    assert run_daemon("--size", "12Q").code == 78
    assert run_daemon(SLUICE_SIZE="12Q").code == 78
    assert run_daemon("--config", tmp_path / "missing.toml").code == 78
    file = tmp_path / "sluiced.toml"
    file.write_text("segmnt-size = '1G'\n")
    refused = run_daemon("--config", file)
    assert refused.code == 78
    assert "did you mean 'segment-size'" in refused.err
    assert f"{file}:1" in refused.err
    assert "loopback" in run_daemon("--admin-host", "0.0.0.0").err
    busy = run_daemon("--directory", daemon.directory, "--size", "64MiB", "--admin-port", "off")
    assert busy.code == 75, busy
    assert run_daemon("--version").code == 0


@pytest.mark.usefixtures("clean_environment")
def test_a_taken_port_is_exit_75_and_takes_no_memory(run_daemon: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run_daemon("--directory", tmp_path / "arena", "--admin-port", port)
    assert refused.code == 75
    assert str(port) in refused.err
    assert not (tmp_path / "arena").exists()


@pytest.mark.usefixtures("clean_environment")
def test_a_token_file_that_others_can_read_is_exit_78(run_daemon: Run, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    token.chmod(0o644)
    refused = run_daemon("--token-file", token)
    assert refused.code == 78
    assert "chmod 600" in refused.err
    assert "s3cret" not in refused.err


@pytest.mark.usefixtures("clean_environment")
def test_the_effective_settings_say_where_they_came_from(
    run_daemon: Run, sluice_program: Path, tmp_path: Path
) -> None:
    file = tmp_path / "sluiced.toml"
    file.write_text("size = '2G'\nobjects-max = 5\n")
    shown = run_daemon(
        *("--config", file, "--objects-max", "6", "--print-config", "--json"),
        SLUICE_LOG_LEVEL="debug",
        SLUICE_TOKEN="very-secret",
    )
    settings = shown.json()
    assert settings["size"] == {"value": "2G", "from": str(file)}
    assert settings["objects-max"] == {"value": "6", "from": "--objects-max"}
    assert settings["log-level"] == {"value": "debug", "from": "SLUICE_LOG_LEVEL"}
    assert settings["mode"]["from"] == "default"
    assert "very-secret" not in shown.text
    own = Sluice(sluice_program, "/x")("config", "--config", file, "--json").json()
    assert own["sluiced"]["size"] == {"value": "2G", "from": str(file)}
    assert own["sluice"]["directory"]["from"] == "SLUICE_DIRECTORY"


def test_an_arena_of_another_user_is_a_permission_error(
    sluice_program: Path, daemon: ArenaDaemon
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    nobody = 65534
    done = subprocess.run(
        [sluice_program, "--directory", daemon.directory, "ls"],
        capture_output=True,
        text=True,
        user=nobody,
        check=False,
        cwd="/",
    )
    assert done.returncode == 1, done
    assert "ermission" in done.stderr or "denied" in done.stderr
