"""What this process posts on its client page for the peers of the arena: counts, and why hand-offs
failed.

Threads: any. post() never raises: what cannot be posted now is posted later.
Limits:  the last REASONS_MAX failed hand-offs; a board stays far below 60 KiB.
"""

import json
import threading
from collections import OrderedDict
from typing import Any

from sluice import _core
from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters
from sluice.vllm.kv.identity import Identity

FORMAT = 1
REASONS_MAX = 64
_REASON_CHARS = 200


class Board:
    def __init__(self, attachment: Attachment, identity: Identity, counters: Counters) -> None:
        self._attachment = attachment
        self._identity = identity
        self._counters = counters
        self._lock = threading.Lock()
        self._facts: dict[str, Any] = {}
        self._reasons: OrderedDict[str, str] = OrderedDict()  # hand-off -> why it failed
        self._version = 0
        self._posted: tuple[int, int, int, int] | None = None

    def state(self, name: str, value: Any) -> None:
        """A fact about this process; JSON values only. Seen with the next post."""
        with self._lock:
            self._facts[name] = value
            self._version += 1

    def failed(self, handoff: str, reason: str) -> None:
        with self._lock:
            self._reasons[handoff] = reason[:_REASON_CHARS]
            self._version += 1
            while len(self._reasons) > REASONS_MAX:
                self._reasons.popitem(last=False)

    def post(self) -> None:
        """Posts if anything changed."""
        client = self._attachment.client
        if client is None:
            return
        try:
            with self._lock:
                now = (client.boot, client.id, self._version, self._counters.version)
                if now != self._posted:
                    client.post(self._text(client.boot))
                    self._posted = now
        except _core.Error:
            return

    def keep(self, client: "_core.Client") -> bool:
        """Keeper's listener: a fresh attachment has an empty page, which is written here."""
        self.post()
        return False

    def _text(self, boot: int) -> str:
        board = {
            "sluice_vllm_kv": FORMAT,
            "engine": self._identity.engine,
            "side": self._identity.side,
            "rank": self._identity.rank,
            "boot": boot,
            "counters": self._counters.snapshot(),
            "failed": self._reasons,
            **self._facts,
        }
        return json.dumps(board, separators=(",", ":"))


def reason_of(client: "_core.Client", identity: Identity, handoff: str) -> str | None:
    """Why a worker of this engine could not write a hand-off, if one says so."""
    for entry in client.clients():
        if not entry["alive"] or not entry["label"].startswith(identity.engine_label):
            continue
        try:
            reason = json.loads(entry["board"])["failed"].get(handoff)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        if isinstance(reason, str):
            return reason
    return None
