"""When all is busy, a request waits within bounds or is told so at once; none hangs."""

import asyncio
import time
from collections import Counter

from chat import CHAT, chat
from crowd import Client, allow_open_files
from raw_http import request
from setups import NewProxy, NewStub, soak
from waiting import until


def test_200_requests_in_one_instant_are_answered_or_refused(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    """A pool of 8 with room for 8 more. Nothing is lost and nothing hangs."""
    engine = new_stub("colocated")
    engine.always(delay_ms=150)
    proxy = new_proxy(engine, running_max=8, queue_max=8)
    count = 200
    allow_open_files(2 * count)

    async def one(client: Client) -> int:
        await client.send(request("POST", CHAT, chat()))
        status, fields = await client.head()
        body = b"".join([piece async for piece in client.pieces(fields)])
        if status != 200:
            assert status in {429, 503}, body
            assert int(fields["retry-after"]) >= 1
            assert b'"error"' in body
        return status

    async def all_of_it() -> Counter[int]:
        clients = [await Client.connect(proxy.port) for _ in range(count)]
        seen = Counter(await asyncio.gather(*(one(client) for client in clients)))
        for client in clients:
            await client.close()
        return seen

    for _ in range(soak(10, 1)):
        seen = asyncio.run(asyncio.wait_for(all_of_it(), 30))
        assert sum(seen.values()) == count
        assert seen[200] >= 8 + 8, seen
        assert seen[429] + seen[503] > 0, seen
    assert engine.counts()["in_flight_max"] <= 8
    # There is room again.
    assert proxy.ask("POST", CHAT, chat()).status == 200


def test_a_full_queue_is_refused_at_once(new_stub: NewStub, new_proxy: NewProxy) -> None:
    engine = new_stub("colocated")
    engine.always(do="stall")
    proxy = new_proxy(engine, running_max=1, queue_max=1)
    with proxy.connect() as first, proxy.connect() as second:
        first.send(request("POST", CHAT, chat()))
        until(lambda: engine.counts()["in_flight"] == 1, "one is at work")
        second.send(request("POST", CHAT, chat()))
        until(lambda: proxy.metric("queue") >= 1, "one waits")
        began = time.monotonic()
        answer = proxy.ask("POST", CHAT, chat())
        assert time.monotonic() - began < 2
        assert answer.status in {429, 503}
        assert int(answer.header("retry-after") or 0) >= 1
        answer.error()


def test_a_deadline_in_the_request_ends_it(new_stub: NewStub, new_proxy: NewProxy) -> None:
    engine = new_stub("colocated")
    engine.always(do="stall")
    proxy = new_proxy(engine, running_max=1)
    with proxy.connect() as working:
        working.send(request("POST", CHAT, chat()))
        until(lambda: engine.counts()["in_flight"] == 1, "one is at work")
        began = time.monotonic()
        answer = proxy.ask("POST", CHAT, chat(), {"x-sluice-timeout-ms": "300"})
        took = time.monotonic() - began
        assert answer.status in {408, 429, 503, 504}, answer
        answer.error()
        assert 0.2 < took < 3


def test_load_is_spread_over_the_instances_of_a_pool(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    engines = [new_stub("colocated") for _ in range(3)]
    for engine in engines:
        engine.always(delay_ms=50)
    proxy = new_proxy(*engines)

    async def all_of_it() -> None:
        clients = [await Client.connect(proxy.port) for _ in range(60)]
        answers = await asyncio.gather(*(c.ask("POST", CHAT, chat()) for c in clients))
        assert {status for status, _ in answers} == {200}
        for client in clients:
            await client.close()

    asyncio.run(all_of_it())
    for engine in engines:
        assert len(engine.requests(CHAT)) >= 10
