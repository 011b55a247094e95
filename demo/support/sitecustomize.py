"""Lets torchvision be imported beside a CPU build of torch. On PYTHONPATH of the demo's and the
tests' engines only.

The torchvision wheel in .venv is built for CUDA, and its C++ operators do not load here. Only its
image transforms are used, but its import looks up the schemas of two operators; this declares them,
without any implementation, right before torchvision is first imported.
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class DeclareOperators(importlib.abc.MetaPathFinder):
    """Finds nothing; it only notices the import of torchvision, once."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torch

            for operator in ("nms", "qnms"):
                torch.library.define(f"torchvision::{operator}", SCHEMA)
        return None


def install() -> None:
    """Once in a process, however often this file is run."""
    waiting = any(type(finder).__name__ == DeclareOperators.__name__ for finder in sys.meta_path)
    if not waiting and "torchvision" not in sys.modules:
        sys.meta_path.insert(0, DeclareOperators())


install()
