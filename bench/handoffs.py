"""The ways to a first token whose prompt was computed by another engine, and what stands beside
them.

Threads: one at a time.
"""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deployment import Deployment
from openai_client import Json, chat, first_token, page, post

if TYPE_CHECKING:
    from sluice._core import Client

WAIT_S = 120.0  # for the first part of a hand-off


@dataclass(frozen=True)
class Took:
    prefill_s: float  # until prefill had answered
    first_s: float  # from then on, until the first token


class Handoffs:
    """Of engines called prefill, decode and colocated (`ours`), and prefill and decode with
    NixlConnector (`theirs`); `client`: of the arena.
    """

    def __init__(self, ours: Deployment, theirs: Deployment, client: "Client") -> None:
        self._ours = ours
        self._theirs = theirs
        self._client = client
        self._number = 0

    def after_commit(self, text: str) -> Took:
        """Decode is asked when prefill has answered."""
        return _handed(self._ours, text, self._name())

    def by_nixl(self, text: str) -> Took:
        nobody = ("remote_engine_id", "remote_block_ids", "remote_host", "remote_port")
        asked = {
            "do_remote_decode": True,
            "do_remote_prefill": False,
            **dict.fromkeys(nobody, None),
        }
        return _handed(self._theirs, text, asked)

    def at_first_group(self, text: str) -> Took:
        """Decode is asked when the first part is in the arena, as the proxy does with
        `decode-dispatch = at_first_group`."""
        from sluice._core import KvKeys

        asked = self._name()
        keys = KvKeys("default", str(asked["sluice_handoff"]))
        early = {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "sluice_handoff": asked["sluice_handoff"],
            "in_progress": True,
        }

        def prefilled() -> float:
            _prefilled(self._ours, text, asked)
            return time.monotonic()

        with ThreadPoolExecutor(1) as pool:
            start = time.monotonic()
            computing = pool.submit(prefilled)
            if self._client.wait([keys.part(0, 0, 0)], WAIT_S) != ["present"]:
                computing.result()  # whatever prefill says of it
                raise RuntimeError("prefill wrote no part of its hand-off")
            began = time.monotonic()
            body = chat(text, kv_transfer_params=early)
            took = first_token(self._ours.ports["decode"], body, self._ours.token)
            answered = computing.result()
        self._client.invalidate(keys.prefix)  # asked for early, it is not decode's to remove
        return Took(answered - start, began + took - answered)

    def colocated(self, text: str) -> Took:
        return Took(0.0, first_token(self._ours.ports["colocated"], chat(text)))

    def nothing(self, text: str) -> Took:
        """What any request costs: decode computes a prompt that has one letter of the text."""
        return Took(0.0, first_token(self._ours.ports["decode"], chat(text[:1]), self._ours.token))

    def counted(self) -> dict[str, float]:
        """What prefill's KV connector has counted."""
        text = page(self._ours.ports["prefill"], "/metrics")
        found = re.findall(r"^sluice_kv_(\w+?)_total\S* (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in found}

    def _name(self) -> Json:
        self._number += 1
        return {"do_remote_decode": True, "sluice_handoff": f"{self._number:032x}"}


def _prefilled(up: Deployment, text: str, asked: Json) -> Json:
    body = chat(text, max_tokens=1, stream=False, kv_transfer_params=asked)
    params = post(up.ports["prefill"], body, up.token)["kv_transfer_params"]
    if not params or not params.get("do_remote_prefill"):
        raise RuntimeError(f"prefill handed nothing off: {params}")
    return dict(params)


def _handed(up: Deployment, text: str, asked: Json) -> Took:
    start = time.monotonic()
    params = _prefilled(up, text, asked)
    answered = time.monotonic()
    body = chat(text, kv_transfer_params=params)
    took = first_token(up.ports["decode"], body, up.token)
    return Took(answered - start, took)
