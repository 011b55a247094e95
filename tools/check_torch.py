"""Says whether the torch of this environment is the CPU build that the CPU engines were built for.

`check_torch.py` reads the installed package's version file; `check_torch.py --import` also imports
it. Exit code 1 and one paragraph of what to do when it is not.
"""

import importlib
import importlib.metadata
import re
import sys

WRONG_BUILD = """\
torch {version} in .venv is a build for {cuda}, and the CPU engines of the tests and the demo need
the CPU build. Set SLUICE_TORCH_INDEX to the address of PyTorch's CPU package index (it is on
PyTorch's "Get started" page) and run the same command again:  make ...
SLUICE_TORCH_INDEX=ADDRESS"""


def installed_cuda() -> str | None:
    """The CUDA version that the installed torch was built for; None for a CPU build. Imports
    nothing of torch.
    """
    for file in importlib.metadata.files("torch") or []:
        if str(file) == "torch/version.py":
            found = re.search(
                r"^cuda\b[^=]*=\s*'([^']+)'", file.read_text(encoding="utf-8"), re.MULTILINE
            )
            return found.group(1) if found else None
    sys.exit(
        "torch is not installed completely: it has no version file. Remove .venv and try again."
    )


def main() -> None:
    version = importlib.metadata.version("torch")
    cuda = installed_cuda()
    if cuda is not None:
        sys.exit(WRONG_BUILD.format(version=version, cuda=f"CUDA {cuda}"))
    if "--import" in sys.argv[1:]:
        importlib.import_module("torch")


if __name__ == "__main__":
    main()
