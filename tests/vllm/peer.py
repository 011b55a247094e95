"""Another process of the arena, as far as these tests need one: stores, announces, removes."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from sluice import _core
from sluice.vllm import tensors
from sluice.vllm.key_template import KeyTemplate
from sluice.vllm.settings import Settings
from vllm.config import VllmConfig
from world import World, feature_of


class Peer:
    """Writes under the keys of the engine that it is made for."""

    def __init__(self, world: World, directory: str) -> None:
        self.client = _core.Client.attach(directory=directory, label="peer")
        self._keys = KeyTemplate(world.config, settings_of(world.config))

    def key(self, identifier: str) -> _core.ObjectKey:
        return self._keys.key(identifier)

    def store(self, identifier: str, rows: int, tensor: torch.Tensor | None = None) -> torch.Tensor:
        """Publishes a feature (that of the tests' encoder unless given); returns it."""
        tensor = feature_of(identifier, rows) if tensor is None else tensor
        name = tensors.dtype_name(tensor.dtype)
        assert name is not None
        source = (("tensor", name, tuple(tensor.shape), tensors.host_bytes(tensor)),)
        outcome = self.client.put(
            self.key(identifier), source, {"modality": "image", "rows": [rows]}
        )
        assert outcome == "published", outcome
        return tensor

    @contextmanager
    def announced(self, identifier: str, rows: int) -> Iterator[_core.Writer]:
        """A live reservation: look-ups say pending. Abandoned at the end unless published."""
        writer = self.client.reserve(
            self.key(identifier), [("tensor", "bfloat16", (rows, feature_of("", 1).shape[1]))]
        )
        assert writer is not None
        done = False
        try:
            yield writer
            done = True
        finally:
            if not done or self.presence(identifier) == "pending":
                writer.abandon()

    def presence(self, identifier: str) -> str:
        return self.client.lookup(self.key(identifier))

    def wait_present(self, identifier: str) -> None:
        assert self.client.wait([self.key(identifier)], 10.0) == ["present"]

    def remove(self, identifier: str) -> None:
        self.client.remove(self.key(identifier))

    def leases(self) -> int:
        """Leases that all processes of the arena hold now."""
        return sum(int(entry["leases"]) for entry in self.client.clients())

    def close(self) -> None:
        self.client.close()


def settings_of(config: VllmConfig) -> Settings:
    assert config.ec_transfer_config is not None
    return Settings.parse(config.ec_transfer_config.ec_connector_extra_config)
