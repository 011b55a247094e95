"""The connectors with one planted fault each: while a file is there, the fault happens once, and
the file is removed.

For the demo and its test only: they must notice that a feature which was promised never arrived,
and that a layer group of a committed hand-off is missing.
"""

import os
from pathlib import Path
from typing import Any

import sluice
import torch
from plant import DROP_GROUP_FILE, DROP_LOAD_FILE
from sluice import _core
from sluice.vllm import SluiceECConnector as RealConnector
from sluice.vllm import SluiceKVConnector as RealKVConnector


def armed(fault: str) -> Path:
    return Path(os.environ["SLUICE_DEMO_FAULTS"]) / fault


class SluiceECConnector(RealConnector):
    def start_load_caches(self, encoder_cache: dict[str, torch.Tensor], **kwargs: Any) -> None:
        fault = armed(DROP_LOAD_FILE)
        metadata = self._get_connector_metadata()
        if fault.exists() and metadata.loads:
            fault.unlink()
            metadata.loads.pop(next(iter(metadata.loads)))
        super().start_load_caches(encoder_cache, **kwargs)


class SluiceKVConnector(RealKVConnector):
    def wait_for_save(self) -> None:
        super().wait_for_save()
        fault = armed(DROP_GROUP_FILE)
        final = [job for job in self._get_connector_metadata().saves if job.final]
        if final and fault.exists():
            fault.unlink()
            arena = self._kv_transfer_config.kv_connector_extra_config["arena"]
            keys = _core.KvKeys("default", final[0].handoff)
            with sluice.connect(arena, label="planted fault", timeout=5.0) as client:
                client.remove(keys.part(final[0].generation, 0, 1))
