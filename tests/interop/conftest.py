"""A real Mooncake master and client, and Sluice's codec as a program, for the interop tests.

`--build-dir` names another build than build/release; `sluice_object_tool` must be built there.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop_peers import (
    STOP_S,
    Master,
    MooncakePeer,
    ObjectTool,
    free_ports,
    own_environment,
    stop,
    wait_until_ready,
)

DEFAULT_BUILD = str(Path(__file__).resolve().parents[2] / "build" / "release")


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
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    """mooncake_master from beside this interpreter, on free ports of the loopback."""
    folder = tmp_path_factory.mktemp("mooncake_master")
    rpc, metrics, http = free_ports(3)
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                Path(sys.executable).with_name("mooncake_master"),
                "--enable_http_metadata_server=true",
                "--http_metadata_server_host=127.0.0.1",
                f"--http_metadata_server_port={http}",
                "--rpc_address=127.0.0.1",
                f"--rpc_port={rpc}",
                "--metrics_host=127.0.0.1",
                f"--metrics_port={metrics}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=own_environment(folder),
            cwd=folder,
        )
    try:
        url = f"http://127.0.0.1:{http}/metadata"
        wait_until_ready(process, rpc, url, log)
        yield Master(url, f"127.0.0.1:{rpc}")
    finally:
        stop(process, signal.SIGTERM)


@pytest.fixture(scope="session")
def mooncake(master: Master, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MooncakePeer]:
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
            env=own_environment(folder),
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
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            stop(process, signal.SIGTERM)


@pytest.fixture
def codec(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectTool:
    """The codec of the build under test."""
    # The default once more: run on a parent folder, pytest loads this file too late for options.
    build = Path(request.config.getoption("--build-dir", default=DEFAULT_BUILD))
    program = build / "tests" / "interop" / "sluice_object_tool"
    if not program.is_file():
        pytest.fail(f"{program} is missing: build it, or name the build folder with --build-dir")
    return ObjectTool(program, tmp_path)
