"""`decode-dispatch = at_first_group`: decode is asked while prefill still works. Whatever prefill
ends with, the client gets one right answer.
"""

from typing import Any

import pytest
import sluice
from arena_daemon import ArenaDaemon
from chat import CHAT, chat
from raw_http import request
from setups import NewProxy, NewStub
from test_arena import PREFIX
from waiting import until

HANDOFF = "sluice1@tenant:default@kind:kv_handoff@"
LINGER_MS = 400  # prefill's time between its first layer group and its answer


class Machine:
    """One prefill, one decode, a proxy that asks decode early, and a client that looks."""

    def __init__(
        self, daemon: ArenaDaemon, new_stub: NewStub, new_proxy: NewProxy, client: sluice.Client
    ) -> None:
        where = {"arena_directory": daemon.directory, "key_prefix": PREFIX}
        self.client = client
        self.prefill = new_stub("prefill", **where)
        self.decode = new_stub("decode", **where)
        self.proxy = new_proxy(
            self.prefill,
            self.decode,
            arena_directory=daemon.directory,
            decode_dispatch="at_first_group",
        )
        until(lambda: self.proxy.metric("arena_attached") >= 1, "the proxy has the arena")

    def told(self) -> list[dict[str, Any]]:
        """What decode was told of the hand-off, call by call."""
        return [each["kv_transfer_params"] for each in self.decode.requests()]

    def await_clean(self) -> None:
        until(lambda: self.client.list(HANDOFF) == [], "hand-offs are removed")
        until(lambda: self.prefill.counts()["in_flight"] == 0, "no prefill runs")
        until(lambda: self.decode.counts()["in_flight"] == 0, "no decode runs")


@pytest.fixture
def machine(
    daemon: ArenaDaemon, new_stub: NewStub, new_proxy: NewProxy, client: sluice.Client
) -> Machine:
    return Machine(daemon, new_stub, new_proxy, client)


@pytest.mark.parametrize("stream", [False, True])
def test_decode_is_asked_once_and_while_prefill_works(machine: Machine, stream: bool) -> None:
    machine.prefill.next({"linger_ms": LINGER_MS})
    machine.decode.next({"delay_ms": 2 * LINGER_MS})  # as one that waits for the commit
    with machine.proxy.connect() as connection:
        connection.send(request("POST", CHAT, chat(stream=stream)))
        until(lambda: machine.decode.counts()["in_flight"] == 1, "decode was asked")
        assert machine.prefill.counts()["in_flight"] == 1
        answer = connection.answer()
    assert answer.status == 200
    (told,) = machine.told()
    (asked,) = [each["kv_transfer_params"] for each in machine.prefill.requests()]
    assert told == {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "sluice_handoff": asked["sluice_handoff"],
        "in_progress": True,
    }
    assert machine.proxy.metric("handoffs_committed_total") == 1
    assert machine.proxy.metric("decodes_early_total") == 1
    assert machine.proxy.metric("decodes_early_lost_total") == 0
    machine.await_clean()


@pytest.mark.parametrize("fault", ["close", "half", "garbage", "reset"])
def test_a_prefill_that_fails_is_tried_again_and_decode_is_told_of_that_one(
    machine: Machine, fault: str
) -> None:
    machine.prefill.next({"do": fault, "linger_ms": LINGER_MS})
    machine.decode.next({"do": "stall"})  # it waits for a commit that never comes
    answer = machine.proxy.ask("POST", CHAT, chat())
    assert answer.status == 200, answer.body
    early, late = machine.told()
    assert early["in_progress"] is True
    assert late["do_remote_prefill"] is True
    assert "in_progress" not in late
    first, second = (each["kv_transfer_params"] for each in machine.prefill.requests())
    assert (early["sluice_handoff"], late["sluice_handoff"]) == (
        first["sluice_handoff"],
        second["sluice_handoff"],
    )
    assert machine.proxy.metric("decodes_early_lost_total") == 1
    machine.await_clean()


def test_a_prefill_that_commits_nothing_leaves_decode_to_compute(machine: Machine) -> None:
    machine.prefill.always(do="close", linger_ms=LINGER_MS // 4)
    machine.decode.next({"do": "stall"})
    answer = machine.proxy.ask("POST", CHAT, chat())
    assert answer.status == 200, answer.body
    assert machine.told()[-1] is None  # no hand-off at all
    assert machine.proxy.metric(r"fallbacks_total\{.*prefill_failed") == 1
    machine.await_clean()


def test_content_that_was_seen_is_not_taken_back(machine: Machine) -> None:
    """Decode gave the hand-off up and computed by itself before prefill failed."""
    machine.prefill.always(do="close", linger_ms=LINGER_MS)
    machine.decode.always(events=8, interval_ms=LINGER_MS // 4)
    answer = machine.proxy.ask("POST", CHAT, chat(stream=True))
    assert answer.status == 200
    assert answer.body.count(b"data: ") >= 8
    assert answer.body.rstrip().endswith(b"data: [DONE]")
    assert b'"error"' not in answer.body
    assert len(machine.told()) == 1
    machine.await_clean()


def test_a_decode_that_fails_early_is_tried_again_with_what_is_known_then(
    machine: Machine,
) -> None:
    machine.prefill.next({"linger_ms": LINGER_MS})
    machine.decode.next({"do": "close"})
    answer = machine.proxy.ask("POST", CHAT, chat())
    assert answer.status == 200, answer.body
    told = machine.told()
    assert len(told) == 2
    assert told[0]["in_progress"] is True
    assert told[0]["sluice_handoff"] == told[1]["sluice_handoff"]
    machine.await_clean()


@pytest.mark.parametrize("after_content", [False, True])
def test_a_client_that_leaves_takes_both_stages_with_it(
    machine: Machine, after_content: bool
) -> None:
    machine.prefill.next({"do": "stall"})
    machine.decode.next({"do": "stall", "after_events": 1} if after_content else {"do": "stall"})
    with machine.proxy.connect() as connection:
        connection.send(request("POST", CHAT, chat(stream=True)))
        until(lambda: machine.decode.counts()["in_flight"] == 1, "decode was asked")
        if after_content:
            assert connection.head().status == 200
        assert machine.prefill.counts()["in_flight"] == 1
    machine.await_clean()


def test_without_an_arena_decode_is_asked_after_prefill(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    prefill, decode = new_stub("prefill"), new_stub("decode")
    proxy = new_proxy(prefill, decode, decode_dispatch="at_first_group")
    prefill.next({"linger_ms": LINGER_MS})
    assert proxy.ask("POST", CHAT, chat()).status == 200
    assert decode.only()["kv_transfer_params"]["generation"] == 0
    assert proxy.metric("decodes_early_total") == 0
