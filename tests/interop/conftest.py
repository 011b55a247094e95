"""A real Mooncake master and client, and Sluice's codec as a program, for the interop tests.

`--build-dir` names another build than build/release; `sluice_object_tool` must be built there.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop_peers import STOP_S, MooncakePeer, ObjectTool

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
import mooncake_master  # noqa: E402
from running import free_ports, wait_or_kill  # noqa: E402

DEFAULT_BUILD = str(ROOT / "build" / "release")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--build-dir`, unless another folder's conftest has it already."""
    try:
        parser.addoption(
            "--build-dir",
            default=DEFAULT_BUILD,
            help="CMake build folder whose programs are tested",
        )
    except ValueError:
        return


@pytest.fixture(scope="session")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mooncake_master.Master]:
    with mooncake_master.master(tmp_path_factory.mktemp("mooncake_master")) as master:
        yield master


@pytest.fixture(scope="session")
def mooncake(
    master: mooncake_master.Master, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MooncakePeer]:
    """Mooncake's own client with a segment of its own, in its own process."""
    folder = tmp_path_factory.mktemp("mooncake_client")
    (port,) = free_ports(1)
    log = folder / "log"
    with log.open("wb") as err:
        process = subprocess.Popen(
            [
                sys.executable,
                Path(__file__).with_name("mooncake_peer.py"),
                master.metadata,
                master.address,
                f"127.0.0.1:{port}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=err,
            env=mooncake_master.own_environment(folder),
            cwd=folder,
            text=True,
            bufsize=1,
        )
    peer = MooncakePeer(process, log)
    try:
        peer.wait_until_ready()
        yield peer
    finally:
        assert process.stdin is not None
        process.stdin.close()
        wait_or_kill(process, STOP_S)


@pytest.fixture
def codec(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectTool:
    """The codec of the build under test."""
    # The default once more: run on a parent folder, pytest loads this file too late for options.
    build = Path(request.config.getoption("--build-dir", default=DEFAULT_BUILD))
    program = build / "tests" / "interop" / "sluice_object_tool"
    if not program.is_file():
        pytest.fail(f"{program} is missing: build it, or name the build folder with --build-dir")
    return ObjectTool(program, tmp_path)
