"""Three real engines on one arena, and what the tests ask them."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from arena_process import ArenaProcess
from engine_group import EngineGroup, wait_until
from engine_process import EngineOptions, EngineProcess, Role
from engines import Answer, Reference, Said
from photographs import Photograph
from sluice import _core

TEXT = "Describe what you see. "
FLAGS = ("--max-num-batched-tokens", "16384")  # rows of the encoder cache, too


class Unshared(Photograph):
    """The same picture under a name that no encoder uses, so that an engine encodes it itself."""

    @staticmethod
    def of(picture: Photograph) -> "Unshared":
        return Unshared(picture.name, picture.jpeg, picture.width_px, picture.height_px)

    @property
    def uuid(self) -> str:
        return "unshared-" + super().uuid


class Deployment(EngineGroup):
    """`encoder`, `prefill` (with a tower) and `blind` (without one)."""

    def __init__(self, model: Path, logs: Path) -> None:
        super().__init__(ArenaProcess("256MiB"), logs)
        directory, extra = self.arena.directory, {"allow_small_arena": True}

        def engine(name: str, role: Role, images: int = 4) -> EngineProcess:
            return self.start(
                EngineOptions(name, model, role, directory, extra, FLAGS, images=images)
            )

        self.encoder = engine("encoder", "ec_producer")
        self.prefill = engine("prefill", "ec_consumer")
        self.blind = engine("blind", "ec_consumer", images=0)

    @contextlib.contextmanager
    def arena_of(self, size: str) -> Iterator[None]:
        """Another daemon with an arena of this size serves the folder, and all engines follow it;
        in the end one with the former size."""
        former = self.arena.size
        self._replace_arena(size)
        yield
        self._replace_arena(former)

    def _replace_arena(self, size: str) -> None:
        processes = self._attached()
        self.arena.stop()
        self.arena.size = size
        self.arena.start()
        wait_until(lambda: self._attached() == processes, "every engine has followed")

    def _attached(self) -> set[int]:
        """Ids of the processes of engines that are attached to the arena."""
        with _core.Client.attach(directory=self.arena.directory, label="test") as client:
            return {one["pid"] for one in client.clients() if one["alive"]} - {os.getpid()}

    def encode(self, picture: Photograph) -> dict[str, Any]:
        """The encoder's answer for one picture: its entry of `ec_transfer_params`."""
        answer = ask(self.encoder, [picture], tokens=1)
        assert not answer.error, answer.error
        entry: dict[str, Any] = answer.transfer[picture.uuid]
        return entry

    def local_answer(self, picture: Photograph, text: str = TEXT) -> Answer:
        """What the engine with a tower says when it encodes the picture itself."""
        answer = ask(self.prefill, [Unshared.of(picture)], text)
        assert not answer.error, answer.error
        return answer


def ask(
    engine: EngineProcess,
    images: Sequence[Photograph | Reference],
    text: str = TEXT,
    tokens: int = 12,
    transfer: dict[str, Any] | None = None,
) -> Answer:
    return engine.http.ask([Said(text, images)], tokens, transfer)


def reference(picture: Photograph, entry: dict[str, Any]) -> Reference:
    """The picture without its media: its name, and what sizes its place in the prompt."""
    return Reference(picture.uuid, entry["metadata"])
