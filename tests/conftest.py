"""What all Python tests share: where the build is, the package from it, and real daemons.

`--build-dir` names the build to test. Its package (`<build>/python`) is used when it was built,
otherwise the one that is installed in this environment.
"""

import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

if TYPE_CHECKING:
    import sluice
    from arena_daemon import ArenaDaemon


def pytest_addoption(parser: pytest.Parser) -> None:
    default = os.environ.get("SLUICE_BUILD", str(ROOT / "build" / "release"))
    parser.addoption("--build-dir", default=default, help="build folder of what is tested")


def package_of(build: Path) -> Path | None:
    """The folder to import `sluice` from, or None for the installed package."""
    folder = build / "python"
    built = (folder / "sluice" / "__init__.py").exists() and any(
        (folder / "sluice").glob("_core*.so")
    )
    return folder if built else None


def pytest_configure(config: pytest.Config) -> None:
    build = Path(config.getoption("--build-dir")).resolve()
    os.environ["SLUICE_BUILD"] = str(build)  # for helpers that pytest does not pass options to
    if (package := package_of(build)) is not None:
        sys.path.insert(0, str(package))
        others = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(package), *([others] if others else [])])


def pytest_report_header(config: pytest.Config) -> str:
    build = Path(config.getoption("--build-dir")).resolve()
    return f"sluice: package {package_of(build) or 'as installed'}, daemon of {build}"


@pytest.fixture(scope="session")
def build_dir(request: pytest.FixtureRequest) -> Path:
    return Path(request.config.getoption("--build-dir")).resolve()


@pytest.fixture(scope="session")
def sluiced(build_dir: Path) -> Path:
    program = build_dir / "apps" / "sluiced" / "sluiced"
    assert program.exists(), f"{program} is not built"
    return program


@pytest.fixture
def new_daemon(sluiced: Path) -> Iterator[Callable[..., "ArenaDaemon"]]:
    """Starts daemons with other sizes and options; all are stopped when the test ends."""
    from arena_daemon import ArenaDaemon

    made: list[ArenaDaemon] = []

    def make(size: str = "64MiB", *options: str) -> ArenaDaemon:
        daemon = ArenaDaemon(sluiced, size, *options)
        made.append(daemon)
        return daemon.__enter__()

    yield make
    for daemon in made:
        daemon.__exit__(None, None, None)


@pytest.fixture
def daemon(new_daemon: Callable[..., "ArenaDaemon"]) -> "ArenaDaemon":
    """A daemon with an arena of 64 MiB."""
    return new_daemon()


@pytest.fixture
def client(daemon: "ArenaDaemon") -> Iterator["sluice.Client"]:
    """A client of `daemon`."""
    import sluice

    with sluice.connect(directory=daemon.directory, timeout=10) as connected:
        yield connected


@pytest.fixture(scope="session")
def shared_daemon(sluiced: Path) -> Iterator["ArenaDaemon"]:
    """One daemon for all tests that need nothing but a place to put things."""
    from arena_daemon import ArenaDaemon

    with ArenaDaemon(sluiced) as daemon:
        yield daemon


@pytest.fixture
def shared_client(shared_daemon: "ArenaDaemon") -> Iterator["sluice.Client"]:
    """A client of `shared_daemon`, whose arena is empty before and after the test."""
    import sluice

    with sluice.connect(directory=shared_daemon.directory, timeout=10) as connected:
        yield connected
        for one in connected.list():
            connected.remove(one["key"])


@pytest.fixture
def seed() -> int:
    """A fresh seed, printed by a test that fails; SLUICE_TEST_SEED repeats one."""
    value = int(os.environ.get("SLUICE_TEST_SEED", random.SystemRandom().randrange(2**32)))
    print(f"SLUICE_TEST_SEED={value}")
    return value
