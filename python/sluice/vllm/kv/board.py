"""What this process posts on its client page for the peers of the arena: counts, and why hand-offs
failed.

Threads: any.
Limits:  the last REASONS_MAX failed hand-offs; a board stays far below 60 KiB.
"""

import json
from collections import OrderedDict
from typing import Any

from sluice import _core
from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters
from sluice.vllm.kv.identity import Identity
from sluice.vllm.page import Page

FORMAT = 1
REASONS_MAX = 64
_REASON_CHARS = 200


class Board(Page):
    def __init__(self, attachment: Attachment, identity: Identity, counters: Counters) -> None:
        super().__init__("sluice_vllm_kv", FORMAT, attachment, identity, counters)
        self._reasons: OrderedDict[str, str] = OrderedDict()  # hand-off -> why it failed

    def failed(self, handoff: str, reason: str) -> None:
        with self._change():
            self._reasons[handoff] = reason[:_REASON_CHARS]
            while len(self._reasons) > REASONS_MAX:
                self._reasons.popitem(last=False)

    def _more(self) -> dict[str, Any]:
        return {"failed": self._reasons}


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
