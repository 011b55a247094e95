"""What the proxy holds and ends in the arena: features by a lease, hand-offs by removing them."""

import sluice
from arena_daemon import ArenaDaemon
from chat import CHAT, chat, image
from raw_http import request
from setups import NewProxy, NewStub
from stub_engine import StubEngine
from waiting import until

PREFIX = (
    "sluice1@tenant:default@kind:encoder_output@model:stub@revision:1@encoder:e@dtype:bfloat16"
    "@layout:replicated"
)
HANDOFF = "sluice1@tenant:default@kind:kv_handoff@"


class Machine:
    """One engine of each role and a proxy, all attached to one arena, and a client that looks."""

    def __init__(
        self, daemon: ArenaDaemon, new_stub: NewStub, new_proxy: NewProxy, client: sluice.Client
    ) -> None:
        where = {"arena_directory": daemon.directory, "key_prefix": PREFIX}
        self.client = client
        self.encoder: StubEngine = new_stub("encoder", **where)
        self.prefill: StubEngine = new_stub("prefill", **where)
        self.decode: StubEngine = new_stub("decode", **where)
        engines = (self.encoder, self.prefill, self.decode)
        self.proxy = new_proxy(*engines, arena_directory=daemon.directory)
        until(lambda: self.proxy.metric("arena_prefixes") >= 1, "the proxy has read the records")

    def handoffs(self) -> list[str]:
        return [each["key"] for each in self.client.list(HANDOFF)]

    def leases(self) -> int:
        """That the proxy holds."""
        clients = self.client.clients()
        return sum(each["leases"] for each in clients if each["label"] == "sluice-proxy")

    def is_clean(self) -> bool:
        return self.handoffs() == [] and self.leases() == 0


def test_a_handoff_is_gone_when_its_request_has_ended(
    daemon: ArenaDaemon, new_stub: NewStub, new_proxy: NewProxy, client: sluice.Client
) -> None:
    machine = Machine(daemon, new_stub, new_proxy, client)
    for stream in (False, True):
        assert machine.proxy.ask("POST", CHAT, chat(stream=stream)).status == 200
    until(machine.is_clean, "hand-offs are removed")


def test_a_handoff_is_there_while_decode_needs_it(
    daemon: ArenaDaemon, new_stub: NewStub, new_proxy: NewProxy, client: sluice.Client
) -> None:
    machine = Machine(daemon, new_stub, new_proxy, client)
    machine.decode.next({"do": "stall"})
    with machine.proxy.connect() as connection:
        connection.send(request("POST", CHAT, chat()))
        until(lambda: machine.decode.counts()["in_flight"] == 1, "decode works")
        name = machine.decode.only()["kv_transfer_params"]["sluice_handoff"]
        assert len(machine.handoffs()) == 2
        assert all(f"@id:{name}." in key for key in machine.handoffs())
    until(machine.is_clean, "the client has left, so it is removed")


def test_a_handoff_that_no_decode_takes_is_removed(
    daemon: ArenaDaemon, new_stub: NewStub, new_proxy: NewProxy, client: sluice.Client
) -> None:
    machine = Machine(daemon, new_stub, new_proxy, client)
    machine.decode.always(do="status", code=500)
    assert machine.proxy.ask("POST", CHAT, chat()).status >= 500
    assert machine.prefill.requests() != []
    until(machine.is_clean, "hand-offs are removed")


def test_handoffs_of_prefills_that_failed_are_removed(
    daemon: ArenaDaemon, new_stub: NewStub, new_proxy: NewProxy, client: sluice.Client
) -> None:
    """The answer was lost after the bytes were written: only the proxy knows the name."""
    machine = Machine(daemon, new_stub, new_proxy, client)
    for fault in ("half", "close", "garbage"):
        machine.prefill.next({"do": fault})
        assert machine.proxy.ask("POST", CHAT, chat()).status == 200
    until(machine.is_clean, "hand-offs are removed")


def test_a_feature_is_leased_from_its_lookup_to_the_first_content(
    daemon: ArenaDaemon, new_stub: NewStub, new_proxy: NewProxy, client: sluice.Client
) -> None:
    machine = Machine(daemon, new_stub, new_proxy, client)
    assert machine.proxy.ask("POST", CHAT, chat(image("held"))).status == 200
    until(machine.is_clean, "nothing is held between requests")
    machine.decode.next({"do": "stall", "after_events": 0})
    body = chat(image("held"), stream=True)
    with machine.proxy.connect() as connection:
        connection.send(request("POST", CHAT, body))
        until(lambda: machine.decode.counts()["in_flight"] == 1, "decode works")
        assert machine.leases() >= 1
    until(machine.is_clean, "the client has left")

    machine.decode.next({"do": "stall", "after_events": 1})
    with machine.proxy.connect() as connection:
        connection.send(request("POST", CHAT, body))
        assert connection.head().status == 200
        until(lambda: machine.leases() == 0, "content was seen, so the lease is over")
        assert machine.decode.counts()["in_flight"] == 1
    assert len(machine.encoder.requests()) == 1


def test_a_feature_that_the_encoder_only_claims_is_sent_with_its_media_or_waited_for(
    daemon: ArenaDaemon, new_stub: NewStub, new_proxy: NewProxy
) -> None:
    """This encoder says `published` and stores nothing."""
    encoder, engine = new_stub("encoder"), new_stub("prefill_decode")
    proxy = new_proxy(encoder, engine, arena_directory=daemon.directory)
    engine.next({"do": "status", "code": 500})  # as an engine does that cannot find the feature
    answer = proxy.ask("POST", CHAT, chat(image("claimed")))
    assert answer.status == 200, answer.body
    assert engine.requests()[-1]["parts"][0]["has_media"]


def test_a_daemon_that_restarts_is_found_again(
    daemon: ArenaDaemon, new_stub: NewStub, new_proxy: NewProxy, client: sluice.Client
) -> None:
    machine = Machine(daemon, new_stub, new_proxy, client)
    assert machine.proxy.ask("POST", CHAT, chat(image("kept"))).status == 200
    until(machine.is_clean, "hand-offs are removed")
    daemon.kill()
    machine.prefill.next({"reason": "the arena is away"})
    assert machine.proxy.ask("POST", CHAT, chat(text="meanwhile")).status == 200
    # What was there can still be found: reading needs no daemon.
    machine.encoder.forget()
    machine.prefill.next({"reason": "the arena is away"})
    assert machine.proxy.ask("POST", CHAT, chat(image("kept"))).status == 200
    assert machine.encoder.requests() == []
    daemon.start()
    machine.encoder.forget()

    def skips() -> bool:
        answer = machine.proxy.ask("POST", CHAT, chat(image("kept")))
        return answer.status == 200 and machine.encoder.requests() == []

    until(skips, "features are found as before")
    until(lambda: machine.handoffs() == [], "hand-offs are removed")
