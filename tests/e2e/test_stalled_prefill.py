"""A prefill that stands still in the middle of a hand-off holds up nobody but whom it serves."""

import itertools
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from asking import Reply, body, same
from counts import count
from endpoint import Endpoint
from engine_group import wait_until
from kv_pair import text_of

pytestmark = pytest.mark.engine
STREAMS = 4
TOKENS = 3500  # of each, if its client stays that long
EVENTS = 50  # that each stream must get before it is watched, and while it is
CALM_S, STALL_S = 3.0, 5.0
REPEATS = count(1, full=8)
VICTIM = body(text_of(3000, salt=77), stream=True)


class Stream:
    """Another client's answer on its way: when its pieces came. Read on a thread of its own."""

    def __init__(self, connection: socket.socket) -> None:
        self.arrivals: list[float] = []
        self.failed = False
        self.ended = False
        self._connection = connection
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def since(self, began: float) -> list[float]:
        return [at for at in self.arrivals if at >= began]

    def largest_gap_ms(self, began: float, ended: float) -> float:
        """Between two pieces that came in this time."""
        times = [at for at in self.since(began) if at <= ended]
        return 1e3 * max(after - before for before, after in itertools.pairwise(times))

    def leave(self) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _read(self) -> None:
        while piece := self._connection.recv(65536):
            self.arrivals.append(time.monotonic())
            self.failed = self.failed or b'"error"' in piece
            self.ended = self.ended or b"[DONE]" in piece


@contextmanager
def other_streams(endpoint: Endpoint) -> Iterator[list[Stream]]:
    """All of them are being answered; their clients leave at the end."""
    with ExitStack() as stack:
        streams = []
        for n in range(STREAMS):
            asked = body(
                text_of(60 + 40 * n, salt=n), stream=True, max_tokens=TOKENS, ignore_eos=True
            )
            streams.append(Stream(stack.enter_context(endpoint.sent(asked))))
            stack.callback(streams[-1].leave)
        # Well past their own prefill, so that the calm time holds none of it.
        wait_until(lambda: all(len(one.arrivals) > EVENTS for one in streams), "the streams began")
        yield streams


def stopped_in_the_middle(endpoint: Endpoint, pool: ThreadPoolExecutor) -> Future[Reply]:
    """A request whose prefill is stopped when some of its KV is in the arena, but no commit."""
    for _ in range(10):
        endpoint.prefill.pause_core()
        victim = pool.submit(endpoint.ask, VICTIM)
        endpoint.prefill.compute_until(
            lambda: bool(endpoint.handoff_keys()), "the hand-off has begun"
        )
        endpoint.prefill.pause()
        if not any(key.endswith(".end") for key in endpoint.handoff_keys()):
            return victim
        endpoint.prefill.resume()  # it was quicker than this test
        victim.result()
        endpoint.await_no_handoff()
    raise AssertionError("no hand-off was met before its commit")


def watched(streams: list[Stream], seconds: float) -> list[float]:
    """The largest gap of each stream in a time that is at least so long, and long enough for each
    of them to go on."""
    began = time.monotonic()
    wait_until(
        lambda: all(len(one.since(began)) >= EVENTS or one.ended for one in streams),
        "every stream goes on",
    )
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    ended = time.monotonic()
    assert not any(one.failed for one in streams)
    return [one.largest_gap_ms(began, ended) for one in streams if len(one.since(began)) > 1]


def test_a_stalled_prefill_holds_up_no_stream_but_its_own(endpoint: Endpoint) -> None:
    wanted = endpoint.measure({**VICTIM, "stream": False})
    assert endpoint.ask(VICTIM) == wanted
    endpoint.await_idle()
    before, during = [], []
    with ThreadPoolExecutor(1) as pool:
        for _ in range(REPEATS):
            with other_streams(endpoint) as streams:
                before += watched(streams, CALM_S)
                victim = stopped_in_the_middle(endpoint, pool)
                try:
                    during += watched(streams, STALL_S)
                    assert not victim.done()
                finally:
                    endpoint.prefill.resume()
                assert same(victim.result(), wanted)  # from its KV, or computed at decode
            endpoint.await_idle()
    calm_ms, stalled_ms = statistics.median(before), statistics.median(during)
    print(
        f"largest gap of a stream, median of {len(before)}: {calm_ms:.1f} ms, and {stalled_ms:.1f} "
        f"ms while prefill stood still for {STALL_S:.0f} s: {stalled_ms - calm_ms:+.1f} ms"
    )
