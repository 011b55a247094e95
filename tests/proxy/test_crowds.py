"""Clients that are slow, or only there, cost the others nothing and are ended in time."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from chat import CHAT, chat
from crowd import Client, allow_open_files
from raw_http import request
from setups import NewProxy, NewStub, soak
from waiting import until

CROWD = soak(500, 60)
ORDINARY = soak(500, 60)
# Of ordinary traffic, beside what a crowd of this size moves before it stands still. A proxy that
# waits for the slow ones takes their time-out, which is longer.
ANSWER_S_MAX = soak(8, 2)
READER_S_MAX = soak(12, 3)


async def ordinary_traffic(port: int) -> None:
    """Requests of another client, each answered soon."""
    client = await Client.connect(port)
    for number in range(ORDINARY):
        began = time.monotonic()
        status, body = await client.ask("POST", CHAT, chat(text=f"{number}"))
        assert status == 200, body
        assert time.monotonic() - began < ANSWER_S_MAX
    await client.close()


async def together(crowd: Coroutine[Any, Any, None], port: int) -> None:
    """Ordinary traffic while the crowd is there."""
    async with asyncio.TaskGroup() as group:
        slow = group.create_task(crowd)
        await ordinary_traffic(port)
        await slow


async def trickle(client: Client, data: bytes, pause_s: float) -> None:
    """Sends byte by byte until all is sent or the other side has closed."""
    try:
        for byte in data:
            await client.send(bytes([byte]))
            await asyncio.sleep(pause_s)
    except ConnectionError:
        pass


@pytest.mark.parametrize("size", [CROWD])
def test_slow_headers_are_ended_and_others_are_served(
    new_stub: NewStub, new_proxy: NewProxy, size: int
) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(engine, header_timeout="1s")
    allow_open_files(2 * size)

    async def one() -> None:
        client = await Client.connect(proxy.port)
        sending = asyncio.create_task(trickle(client, b"GET /v1/models HTTP/1.1\r\nx: y" * 9, 0.05))
        assert await asyncio.wait_for(client.is_closed(), 15)
        sending.cancel()
        await client.close()

    async def crowd() -> None:
        await asyncio.gather(*(one() for _ in range(size)))

    began = time.monotonic()
    asyncio.run(together(crowd(), proxy.port))
    assert time.monotonic() - began < 20
    assert len(engine.requests(CHAT)) == ORDINARY
    print(f"{size} slow headers ended while {ORDINARY} other requests were answered")


@pytest.mark.parametrize("size", [CROWD])
def test_slow_bodies_are_ended_and_others_are_served(
    new_stub: NewStub, new_proxy: NewProxy, size: int
) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(engine, body_idle_timeout="1s")
    allow_open_files(2 * size)
    head = request("POST", CHAT, headers={"content-length": "100000"})

    async def one() -> None:
        client = await Client.connect(proxy.port)
        await client.send(head)
        await trickle(client, b'{"messages"', 0.05)  # and then nothing more
        assert await asyncio.wait_for(client.is_closed(), 15)
        await client.close()

    async def crowd() -> None:
        await asyncio.gather(*(one() for _ in range(size)))

    asyncio.run(together(crowd(), proxy.port))
    assert len(engine.requests(CHAT)) == ORDINARY
    print(f"{size} slow bodies ended while {ORDINARY} other requests were answered")


@pytest.mark.parametrize("size", [CROWD])
def test_slow_readers_are_paused_and_not_buffered_and_ended(
    new_stub: NewStub, new_proxy: NewProxy, size: int
) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(engine, write_timeout=f"{READER_S_MAX}s", running_max=2 * size)
    allow_open_files(2 * size)
    events, event_bytes = 20_000, 1_000
    script = {"colocated": {"events": events, "event_bytes": event_bytes}}
    before = proxy.resident_kib()
    reading = asyncio.Event()

    async def one() -> None:
        client = await Client.connect(proxy.port, receive_buffer=16_384)
        await client.send(request("POST", CHAT, chat(stream=True, stub=script)))
        status, _ = await client.head()
        assert status == 200
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await reading.wait()
        client.vanish()

    async def crowd() -> None:
        await asyncio.gather(*(one() for _ in range(size)))

    async def all_of_it() -> None:
        task = asyncio.create_task(crowd())
        await ordinary_traffic(proxy.port)
        grown_kib = proxy.resident_kib() - before
        assert grown_kib < size * 512 + 16_384, f"{grown_kib} KiB for {size} slow readers"
        # Paused: the engine could send no more than what buffers hold, far below the whole.
        sent = [each["events"] for each in engine.requests() if each["stream"]]
        assert len(sent) == size
        assert max(sent) * event_bytes < events * event_bytes / 2
        # Their time runs out, which tells the engine to stop.
        await asyncio.to_thread(
            until, lambda: engine.counts()["in_flight"] == 0, "slow readers are given up", 40
        )
        reading.set()
        await task

    asyncio.run(all_of_it())
    assert engine.counts()["cancelled"] == size
    print(f"{size} slow readers paused and ended while {ORDINARY} other requests were answered")


@pytest.mark.memory
def test_2000_idle_connections_are_held_in_little_memory(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(engine)
    count = 2_000
    allow_open_files(2 * count)

    async def all_of_it() -> None:
        await ordinary_traffic(proxy.port)
        before = proxy.resident_kib()
        clients = [await Client.connect(proxy.port) for _ in range(count)]
        for client in clients[:: count // 50]:  # some have asked, and idle now
            assert (await client.ask("GET", "/v1/models"))[0] == 200
        await ordinary_traffic(proxy.port)
        assert (proxy.resident_kib() - before) / count < 32
        for client in clients[:: count // 20]:
            assert (await client.ask("POST", CHAT, chat()))[0] == 200
        for client in clients:
            await client.close()

    asyncio.run(all_of_it())
