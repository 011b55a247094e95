"""What scheduler and workers of one engine tell each other through the arena.

vLLM's own channel loses half of it (an encode-only producer's worker metadata, and anything sent on
a step without tokens), so every process posts a board, JSON on its client page, and the scheduler
reads those of its engine's workers. Boards say what is so, not what changed: a lost reading loses
nothing.

Threads: a Board belongs to its process and may be posted from any of its threads. A Roster is
         refreshed on the keeper thread and read on the scheduler's.
Limits:  the last ACKS_MAX acknowledgements and ERRORS_MAX errors; a board stays far below 60 KiB.
"""

import json
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice import _core
from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters
from sluice.vllm.page import Page
from sluice.vllm.topology import Identity

KIND = "sluice_vllm"
FORMAT = 1
ACKS_MAX = 512
ERRORS_MAX = 16


class Board(Page):
    """What this process posts."""

    def __init__(self, attachment: Attachment, identity: Identity, counters: Counters) -> None:
        super().__init__(KIND, FORMAT, attachment, identity, counters)
        self._acknowledged: OrderedDict[int, None] = OrderedDict()
        self._errors: deque[str] = deque(maxlen=ERRORS_MAX)

    def acknowledge(self, transfer: int) -> None:
        with self._change():
            self._acknowledged.pop(transfer, None)
            self._acknowledged[transfer] = None
            while len(self._acknowledged) > ACKS_MAX:
                self._acknowledged.popitem(last=False)

    def complain(self, text: str) -> None:
        with self._change():
            self._errors.append(text[:200])

    def _more(self) -> dict[str, Any]:
        return {"acknowledged": list(self._acknowledged), "errors": list(self._errors)}


@dataclass(frozen=True, slots=True)
class WorkerBoard:
    rank: int
    boot: int
    acknowledged: frozenset[int]
    counters: dict[str, int] = field(default_factory=dict)


class Roster:
    """The living workers of this engine, as their boards say."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._workers: dict[int, WorkerBoard] = {}
        self.watching = False  # True: somebody waits for what a board will say

    def refresh(self, client: "_core.Client") -> bool:
        """Reads all boards. Keeper's listener: True while a rank is missing or awaited."""
        workers = {}
        for entry in client.clients():
            if entry["alive"] and entry["label"].startswith(self._identity.engine_label):
                board = _parse(entry["board"], self._identity.engine)
                if board is not None:
                    workers[board.rank] = board
        self._workers = workers
        return self.watching or not self.all_attached(client.boot)

    def all_attached(self, boot: int) -> bool:
        """True when every rank that maps features is attached to these contents of the arena."""
        workers = self._workers
        return all(
            rank in workers and workers[rank].boot == boot for rank in self._identity.loading_ranks
        )

    def acknowledged(self) -> dict[int, frozenset[int]]:
        return {rank: board.acknowledged for rank, board in self._workers.items()}

    def counters(self) -> dict[int, Mapping[str, int]]:
        return {rank: board.counters for rank, board in self._workers.items()}


def cache_bytes_of_others(client: "_core.Client", engine: str) -> int:
    """What the encoder caches of the arena's other living engines may pin, in bytes."""
    amounts: dict[str, int] = {}
    for entry in client.clients():
        board = _read(entry["board"]) if entry["alive"] else None
        if board is None or board.get("engine") == engine:
            continue
        record = board.get("record")
        amount = record.get("encoder_cache_bytes") if isinstance(record, dict) else None
        if isinstance(amount, int) and amount > 0:
            amounts[str(board.get("engine"))] = amount
    return sum(amounts.values())


def _read(text: str) -> dict[str, Any] | None:
    """Any board of a vLLM connector; None for other texts."""
    try:
        board = json.loads(text)
    except ValueError:
        return None
    if not isinstance(board, dict) or board.get(KIND) != FORMAT:
        return None
    return board


def _parse(text: str, engine: str) -> WorkerBoard | None:
    """A board of this engine's worker; None for anything else."""
    board = _read(text)
    if board is None:
        return None
    try:
        if board["engine"] != engine or board["side"] != "worker":
            return None
        return WorkerBoard(
            rank=int(board["rank"]),
            boot=int(board["boot"]),
            acknowledged=frozenset(int(transfer) for transfer in board["acknowledged"]),
            counters={str(name): int(value) for name, value in board["counters"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
