"""SluiceECConnector with one planted fault: while a file is there, the next load is dropped, and
the file removed.

For the demo and its test only: they must notice that a feature which was promised never arrived.
"""

import os
from pathlib import Path
from typing import Any

import torch
from plant import DROP_LOAD_FILE
from sluice.vllm import SluiceECConnector as RealConnector


class SluiceECConnector(RealConnector):
    def start_load_caches(self, encoder_cache: dict[str, torch.Tensor], **kwargs: Any) -> None:
        fault = Path(os.environ["SLUICE_DEMO_FAULTS"]) / DROP_LOAD_FILE
        metadata = self._get_connector_metadata()
        if fault.exists() and metadata.loads:
            fault.unlink()
            metadata.loads.pop(next(iter(metadata.loads)))
        super().start_load_caches(encoder_cache, **kwargs)
