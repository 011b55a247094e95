"""Clients that leave in each phase of a request leave nothing behind: no block of an engine's KV
cache, no object and no byte of the arena, no place at the proxy.

What holds a request in its phase is an engine whose computing processes are stopped meanwhile, so
that every client leaves in the phase it is counted for.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from asking import body
from counts import count
from endpoint import RUNNING_MAX, Endpoint
from engine_group import HANDOFFS, wait_until
from engine_process import EngineProcess
from kv_pair import text_of
from pictures import picture

pytestmark = pytest.mark.engine
LEAVES = count(20, full=200)
AT_ONCE = RUNNING_MAX  # as many as the proxy gives one engine
SEATS = 8  # --max-num-seqs of the engines
ROLES = ("encoder", "prefill", "decode")


class Clients:
    """Requests whose clients are still there. leave() ends all of them."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._stack = ExitStack()
        self.left = 0
        self._there = 0

    def send(self, number: int, tokens: int = 300, image: int | None = None) -> None:
        pictures = [] if image is None else [picture(image)]
        asked = body(text_of(tokens, salt=number), pictures)
        self._stack.enter_context(self._endpoint.sent(asked))
        self._there += 1

    def leave(self) -> None:
        self._stack.close()
        self.left += self._there
        self._there = 0


@contextmanager
def computing_nothing(engine: EngineProcess) -> Iterator[None]:
    """Its server takes requests; nothing is done about them until the end."""
    try:
        engine.pause_core()
        yield
    finally:
        engine.resume_core()


def queued(endpoint: Endpoint, number: int) -> int:
    """Every place at prefill is taken; they wait at the proxy and are never sent."""
    ahead, behind = Clients(endpoint), Clients(endpoint)
    with computing_nothing(endpoint.prefill):
        for place in range(AT_ONCE):
            ahead.send(place)
        running(endpoint, "prefill", AT_ONCE)
        sent = endpoint.counted("stage_requests_total", "prefill")
        for place in range(AT_ONCE):
            behind.send(number + place)
        wait_until(
            lambda: endpoint.counted("stage_waiting", "prefill") == AT_ONCE, "they wait in line"
        )
        behind.leave()
        wait_until(lambda: endpoint.counted("stage_waiting", "prefill") == 0, "the line is empty")
        assert endpoint.counted("stage_requests_total", "prefill") == sent
        ahead.leave()
    return behind.left


def encoding(endpoint: Endpoint, number: int) -> int:
    clients = Clients(endpoint)
    with computing_nothing(endpoint.encoder):
        for place in range(AT_ONCE):
            clients.send(number + place, image=1000 + number + place)  # never seen before
        running(endpoint, "encoder", AT_ONCE)
        clients.leave()
        running(endpoint, "encoder", 0)
    return clients.left


def before_the_first_group(endpoint: Endpoint, number: int) -> int:
    """Half of them leave a prefill that has not begun, half one that is about to."""
    early, late = Clients(endpoint), Clients(endpoint)
    with computing_nothing(endpoint.prefill):
        for place in range(AT_ONCE):
            (late if place % 2 else early).send(number + place)
        running(endpoint, "prefill", AT_ONCE)
        assert not endpoint.handoff_keys()
        early.leave()
        running(endpoint, "prefill", AT_ONCE // 2)
    late.leave()
    return early.left + late.left


def between_groups(endpoint: Endpoint, number: int) -> int:
    """A prompt of several chunks, stopped when something of it is in the arena but no commit."""
    clients = Clients(endpoint)
    with computing_nothing(endpoint.prefill):
        clients.send(number, tokens=2500)
        running(endpoint, "prefill", 1)
        endpoint.prefill.compute_until(
            lambda: bool(endpoint.handoff_keys()), "the first group is there"
        )
        if commits(endpoint):  # too late to count
            clients.leave()
            return 0
        assert endpoint.counted("stage_running", "prefill") == 1
        clients.leave()
        running(endpoint, "prefill", 0)
    return clients.left


def committed(endpoint: Endpoint, number: int) -> int:
    """Half of them leave a decode that has not begun, half one that is about to."""
    early, late = Clients(endpoint), Clients(endpoint)
    with computing_nothing(endpoint.decode):
        for place in range(AT_ONCE):
            (late if place % 2 else early).send(number + place)
        wait_until(lambda: len(commits(endpoint)) == AT_ONCE, "all hand-offs are committed")
        running(endpoint, "decode", AT_ONCE)
        early.leave()
        running(endpoint, "decode", AT_ONCE // 2)
    late.leave()
    return early.left + late.left


def loading(endpoint: Endpoint, number: int) -> int:
    """Their commits are taken away before decode begins, so that it waits for them."""
    clients = Clients(endpoint)
    matches = endpoint.decode.kv()["matches"]
    with computing_nothing(endpoint.decode):
        for place in range(SEATS):
            clients.send(number + place)
        wait_until(lambda: len(commits(endpoint)) == SEATS, "all hand-offs are committed")
        running(endpoint, "decode", SEATS)
        for key in commits(endpoint):
            endpoint.client.invalidate(key)
    wait_until(lambda: endpoint.decode.kv()["matches"] == matches + SEATS, "decode loads them")
    clients.leave()
    return clients.left


def decoding(endpoint: Endpoint, number: int) -> int:
    """Each of them has seen the beginning of its answer."""
    left = 0
    with ExitStack() as clients:
        connections = [
            clients.enter_context(
                endpoint.sent(
                    body(
                        text_of(100, salt=number + place),
                        stream=True,
                        max_tokens=2000,
                        ignore_eos=True,
                    )
                )
            )
            for place in range(SEATS)
        ]
        for connection in connections:
            seen = b""
            while b'"content"' not in seen:
                piece = connection.recv(65536)
                assert piece, seen
                seen += piece
            left += 1
    return left


def running(endpoint: Endpoint, role: str, requests: int) -> None:
    wait_until(
        lambda: endpoint.counted("stage_running", role) == requests,
        f"{requests} requests are at {role}",
    )


def commits(endpoint: Endpoint) -> list[str]:
    return [key for key in endpoint.handoff_keys() if key.endswith(".end")]


def beside_features(endpoint: Endpoint) -> tuple[int, int, int]:
    """Objects, bytes and reserved bytes of the arena without features, which stay on purpose."""
    stats = endpoint.client.stats()
    features = [one for one in endpoint.client.list() if not one["key"].startswith(HANDOFFS)]
    return (
        stats["objects"] - len(features),
        stats["used_bytes"] - sum(one["extent_bytes"] for one in features),
        stats["reserved_bytes"],
    )


Phase = Callable[[Endpoint, int], int]
PHASES: list[Phase] = [
    queued,
    encoding,
    before_the_first_group,
    between_groups,
    committed,
    loading,
    decoding,
]


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
def test_clients_that_leave_in_a_phase_leave_nothing_behind(
    endpoint: Endpoint, phase: Phase
) -> None:
    asked = body("Still there? ", [picture(60)])
    wanted = endpoint.measure(asked)
    assert endpoint.ask(asked) == wanted
    endpoint.await_idle()
    before = beside_features(endpoint)
    gone = endpoint.growth("clients_gone_total")
    left = tried = 0
    while left < LEAVES:
        left += phase(endpoint, 100 * tried)
        endpoint.await_idle()
        tried += 1
        assert tried <= 3 * LEAVES, f"{left} of {tried} left in time"
    for role in ROLES:
        running(endpoint, role, 0)
    assert gone() >= [left]
    wait_until(
        lambda: beside_features(endpoint) == before,
        f"the arena is as it was: {before}, now {beside_features(endpoint)}",
    )
    print(f"{phase.__name__}: {left} clients left")
    assert endpoint.ask(asked) == wanted
