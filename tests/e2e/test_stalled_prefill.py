"""A prefill that stands still in the middle of a hand-off holds up nobody but whom it serves."""

import itertools
import statistics
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from asking import Reply, body, same
from counts import count
from endpoint import Endpoint
from engine_group import wait_until
from kv_pair import text_of

pytestmark = pytest.mark.engine
STREAMS = 4
TOKENS = 500
STALL_S = 5.0
REPEATS = count(1, full=15)

OTHERS = [
    body(text_of(60 + 40 * n, salt=n), stream=True, max_tokens=TOKENS, ignore_eos=True)
    for n in range(STREAMS)
]
VICTIM = body(text_of(3000, salt=77), stream=True)


class Streams:
    """Other clients' streams, which are under way when this is made."""

    def __init__(self, endpoint: Endpoint, pool: ThreadPoolExecutor) -> None:
        heard = endpoint.growth("events_total")
        self._replies = [pool.submit(endpoint.ask, asked) for asked in OTHERS]
        wait_until(lambda: heard()[0] > 10 * STREAMS, "the streams have begun")

    def ended(self) -> list[Reply]:
        return [reply.result() for reply in self._replies]


def largest_gap_ms(reply: Reply, since: float) -> float:
    """Between two events, both after `since`."""
    times = [at for at in reply.arrivals if at >= since]
    return 1e3 * max(after - before for before, after in itertools.pairwise(times))


def stopped_in_the_middle(endpoint: Endpoint, pool: ThreadPoolExecutor) -> Future[Reply]:
    """A request whose prefill is stopped when some of its KV is in the arena, but no commit."""
    for _ in range(10):
        victim = pool.submit(endpoint.ask, VICTIM)
        wait_until(lambda: bool(endpoint.handoff_keys()), "the hand-off has begun")
        endpoint.prefill.pause()
        if not any(key.endswith(".end") for key in endpoint.handoff_keys()):
            return victim
        endpoint.prefill.resume()  # it was quicker than this test
        victim.result()
        endpoint.await_no_handoff()
    raise AssertionError("no hand-off was met before its commit")


def test_a_stalled_prefill_holds_up_no_stream_but_its_own(endpoint: Endpoint) -> None:
    wanted = endpoint.measure({**VICTIM, "stream": False})
    assert endpoint.ask(VICTIM) == wanted
    endpoint.await_idle()
    before, during = [], []
    with ThreadPoolExecutor(STREAMS + 1) as pool:
        for _ in range(REPEATS):
            streams = Streams(endpoint, pool)
            calm = streams.ended()
            all_began = max(reply.arrivals[0] for reply in calm)
            before += [largest_gap_ms(reply, all_began) for reply in calm]
            streams = Streams(endpoint, pool)
            victim = stopped_in_the_middle(endpoint, pool)
            try:
                began = time.monotonic()
                others = streams.ended()  # all of them, while prefill stands still
                assert not victim.done()
                time.sleep(max(0.0, began + STALL_S - time.monotonic()))  # as long as it stalls
            finally:
                endpoint.prefill.resume()
            assert same(victim.result(), wanted)  # whether from its KV, or computed at decode
            during += [largest_gap_ms(reply, began) for reply in others]
            for reply in (*calm, *others):
                assert not reply.error
                assert len(reply.tokens) == TOKENS
            for reply in others:  # most of it came during the stall
                assert sum(at > began for at in reply.arrivals) > TOKENS // 5
    endpoint.await_idle()
    calm_ms, stalled_ms = statistics.median(before), statistics.median(during)
    print(
        f"largest gap of a stream, median of {len(before)}: {calm_ms:.1f} ms, and {stalled_ms:.1f} "
        f"ms while prefill stood still for {STALL_S:.0f} s: {stalled_ms - calm_ms:+.1f} ms"
    )
