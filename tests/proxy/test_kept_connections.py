"""Connections to engines are reused, and none is used at the moment its engine closes it."""

import asyncio
import random

import pytest
from chat import CHAT, chat
from crowd import Client
from setups import NewProxy, NewStub, soak


def test_connections_are_reused(new_stub: NewStub, new_proxy: NewProxy) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(engine)
    with proxy.connect() as connection:
        for _ in range(50):
            assert connection.ask("POST", CHAT, chat()).status == 200
    used = {each["connection"] for each in engine.requests(CHAT)}
    assert len(used) <= 2, f"{len(used)} connections for 50 requests in turn"


def test_idle_gaps_around_the_engines_keep_alive_show_no_failure(
    new_stub: NewStub, new_proxy: NewProxy, seed: int
) -> None:
    """The engine closes a connection after exactly 1 s; requests come when that is about to
    happen."""
    choose = random.Random(seed)
    engine = new_stub("colocated", keep_alive_ms=1_000)
    proxy = new_proxy(engine, engine_keep_alive="1s")
    workers, gaps = 50, soak(100, 4)

    async def one(gap_s: list[float]) -> None:
        client = await Client.connect(proxy.port)
        for pause in gap_s:
            status, body = await client.ask("POST", CHAT, chat())
            assert status == 200, body
            await asyncio.sleep(pause)
        status, body = await client.ask("POST", CHAT, chat())
        assert status == 200, body
        await client.close()

    async def all_of_it() -> None:
        await asyncio.gather(
            *(one([choose.gauss(1.0, 0.02) for _ in range(gaps)]) for _ in range(workers))
        )

    asyncio.run(all_of_it())
    assert engine.counts()["cancelled"] == 0
    assert len(engine.requests(CHAT)) == workers * (gaps + 1), "a request was sent twice"
    print(f"{workers * gaps} idle gaps around the keep-alive, 0 requests failed or sent twice")


@pytest.mark.parametrize("keep_alive_ms", [1, 200])
def test_a_keep_alive_too_short_to_be_sure_of_means_no_reuse(
    new_stub: NewStub, new_proxy: NewProxy, keep_alive_ms: int
) -> None:
    engine = new_stub("colocated", keep_alive_ms=max(keep_alive_ms, 200))
    proxy = new_proxy(engine, engine_keep_alive=f"{keep_alive_ms}ms")
    with proxy.connect() as connection:
        for _ in range(20):
            assert connection.ask("POST", CHAT, chat()).status == 200
    if keep_alive_ms == 1:
        assert {each["nth_on_connection"] for each in engine.requests(CHAT)} == {1}


def test_an_engine_that_closes_without_notice_is_asked_again(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    """It keeps connections for far less than it was said to, so that requests meet closed ones."""
    engine = new_stub("colocated", keep_alive_ms=20)
    proxy = new_proxy(engine, engine_keep_alive="5s")

    async def one() -> None:
        client = await Client.connect(proxy.port)
        for number in range(soak(500, 20)):
            status, body = await client.ask("POST", CHAT, chat())
            assert status == 200, body
            await asyncio.sleep(0.018 + 0.0005 * (number % 8))
        await client.close()

    async def all_of_it() -> None:
        await asyncio.gather(*(one() for _ in range(10)))

    asyncio.run(all_of_it())


def test_an_answer_that_says_close_is_the_last_on_its_connection(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    engine = new_stub("colocated")
    engine.next({"do": "half", "path": CHAT})
    proxy = new_proxy(engine)
    answers = [proxy.ask("POST", CHAT, chat()).status for _ in range(5)]
    assert answers[1:] == [200] * 4
