"""A client that goes away frees what its request holds, in every stage, within 100 ms."""

import asyncio
import time

import pytest
from chat import CHAT, chat, image
from crowd import Client, allow_open_files
from raw_http import request
from setups import Trio, soak
from waiting import until

WITHIN_S = 0.1
BUSY_S = 0.4  # more for a machine that runs other things


def all_idle(trio: Trio) -> bool:
    return all(engine.counts()["in_flight"] == 0 for engine in trio.engines)


@pytest.mark.parametrize("stage", ["encoder", "prefill", "decode"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_closes_cancels_the_stage_that_runs(
    trio: Trio, stage: str, stream: bool
) -> None:
    engine = {engine.role: engine for engine in trio.engines}[stage]
    engine.next({"do": "stall"})
    with trio.proxy.connect() as connection:
        connection.send(request("POST", CHAT, chat(image(f"{stage}{stream}"), stream=stream)))
        until(lambda: engine.counts()["in_flight"] == 1, f"{stage} works")
        left = time.monotonic()
    until(lambda: all_idle(trio), "every stage is free")
    cancelled = engine.requests(CHAT)[-1]
    assert cancelled["outcome"] == "cancelled"
    assert cancelled["ended_ns"] / 1e9 - left < WITHIN_S + BUSY_S
    later = {"encoder": ["prefill", "decode"], "prefill": ["decode"], "decode": []}[stage]
    for other in trio.engines:
        if other.role in later:
            assert other.requests() == [], f"{other.role} was asked for nobody"


def test_many_clients_that_vanish_mid_stream_leave_nothing_behind(trio: Trio) -> None:
    count = soak(500, 100)
    allow_open_files(2 * count)
    script = {"decode": {"events": 1_000_000, "interval_ms": 20}}

    async def one(number: int) -> None:
        client = await Client.connect(trio.proxy.port)
        await client.send(request("POST", CHAT, chat(image("same"), stream=True, stub=script)))
        status, fields = await client.head()
        assert status == 200
        pieces = client.pieces(fields)
        for _ in range(number % 5):
            await anext(pieces)
        if number % 2:
            client.vanish()
        else:
            await client.close()

    async def all_of_it() -> None:
        await asyncio.gather(*(one(number) for number in range(count)))

    asyncio.run(all_of_it())
    until(lambda: all_idle(trio), "every stage is free")
    counts = trio.decode.counts()
    assert counts["cancelled"] == count
    print(f"{count} clients vanished in the middle of a stream, {count} were cancelled at decode")
    # The proxy is as it was.
    answer = trio.proxy.ask("POST", CHAT, chat(image("same")))
    assert answer.status == 200


def test_a_waiter_that_leaves_does_not_take_the_encode_from_the_others(trio: Trio) -> None:
    trio.encoder.next({"delay_ms": 400})
    body = chat(image("shared by two"))
    with trio.proxy.connect() as first, trio.proxy.connect() as second:
        first.send(request("POST", CHAT, body))
        until(lambda: trio.encoder.counts()["in_flight"] == 1, "the encoder works")
        second.send(request("POST", CHAT, body))
        until(lambda: trio.proxy.metric("coalesced") >= 1, "the second waits for the same encode")
        first.close()
        assert second.answer().status == 200
    assert len(trio.encoder.requests()) <= 2
