"""What a user installs: it imports by itself, carries only the package, and knows nothing of CUDA
or engine plug-ins.
"""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"),
            *("--disable-pip-version-check", "--wheel-dir", folder, ROOT),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=1200,
        # What the build compiled is found, where ccache is installed, as in tools/build.sh.
        env={**os.environ, "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = folder.glob("sluice-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
            *("--disable-pip-version-check", "--target", folder, wheel),
        ],
        check=True,
        timeout=300,
    )
    return folder


pytestmark = pytest.mark.slow


def test_installed_package_imports_from_its_own_folder(installed: Path, tmp_path: Path) -> None:
    code = "import sluice, sluice._core; print(sluice.__version__, sluice._core.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        timeout=60,
    )
    version, path = done.stdout.split()
    assert version == "0.1.0"
    assert Path(path).is_relative_to(installed)


def test_wheel_carries_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    outside = [n for n in names if not n.startswith(("sluice/", "sluice-0.1.0.dist-info/"))]
    assert outside == []
    assert {"sluice/py.typed", "sluice/_core.pyi", "sluice/client.py"} <= set(names)
    assert [n for n in names if n.endswith(".so")] == [
        n for n in names if n.startswith("sluice/_core.") and n.endswith(".so")
    ]
    assert len([n for n in names if n.endswith(".so")]) == 1
    assert "sluice/vllm/__init__.py" in names


def test_installing_registers_no_plug_in(installed: Path) -> None:
    [info] = installed.glob("sluice-*.dist-info")
    assert not (info / "entry_points.txt").exists()
    assert "Provides-Extra: vllm" in (info / "METADATA").read_text()
    assert list(installed.glob("*.pth")) == []


def test_module_needs_no_cuda(installed: Path) -> None:
    [module] = (installed / "sluice").glob("_core.*.so")
    for arguments in (
        ["readelf", "--dynamic", "--wide"],
        ["nm", "--dynamic"],
        ["strings", "--all"],
    ):
        done = subprocess.run(
            [*arguments, module], check=True, capture_output=True, text=True, timeout=60
        )
        assert done.stdout
        assert [line for line in done.stdout.splitlines() if "cuda" in line.lower()] == []
