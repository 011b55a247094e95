"""Several threads answer as one does: what they share is shared, what they own stays apart."""

import asyncio
from collections.abc import Awaitable, Callable

from chat import CHAT, chat, image
from crowd import Client
from raw_http import Answer
from setups import TOKEN, NewProxy, NewStub, soak
from stub_engine import StubEngine
from waiting import until

THREADS = 3
CLIENTS = 30  # enough that every thread has some


def together(port: int, one: Callable[[Client, int], Awaitable[None]]) -> None:
    """Runs it for many connections at a time."""

    async def all_of_it() -> None:
        clients = [await Client.connect(port) for _ in range(CLIENTS)]
        await asyncio.gather(*(one(client, number) for number, client in enumerate(clients)))
        for client in clients:
            await client.close()

    asyncio.run(all_of_it())


def test_requests_on_all_threads_are_answered(new_stub: NewStub, new_proxy: NewProxy) -> None:
    engines = [new_stub(role) for role in ("encoder", "prefill", "decode")]
    proxy = new_proxy(*engines, threads=THREADS)

    async def one(client: Client, number: int) -> None:
        for turn in range(soak(200, 10)):
            name = f"{number % 7}-{turn}"
            status, stream = await client.stream(CHAT, chat(image(name), stream=True))
            assert status == 200
            assert stream.is_whole
            assert stream.has_first(4)

    together(proxy.port, one)
    for engine in engines:
        counts = engine.counts()
        assert counts["in_flight"] == counts["cancelled"] == counts["malformed"] == 0


def test_equal_media_is_encoded_once_whichever_thread_has_it(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    encoder, engine = new_stub("encoder"), new_stub("prefill_decode")
    encoder.always(delay_ms=500)
    proxy = new_proxy(encoder, engine, threads=THREADS)

    async def one(client: Client, number: int) -> None:
        status, body = await client.ask("POST", CHAT, chat(image("shared"), text=f"{number}"))
        assert status == 200, body

    together(proxy.port, one)
    assert len(encoder.requests()) == 1
    assert len(engine.requests(CHAT)) == CLIENTS


def test_a_bound_on_an_engine_holds_over_all_threads(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    engine = new_stub("colocated")
    engine.always(delay_ms=20)
    proxy = new_proxy(engine, threads=THREADS, running_max=4, queue_max=CLIENTS)

    async def one(client: Client, number: int) -> None:
        status, body = await client.ask("POST", CHAT, chat(text=f"{number}"))
        assert status == 200, body

    together(proxy.port, one)
    assert engine.counts()["in_flight_max"] <= 4


def test_an_alias_is_bound_on_all_threads(new_stub: NewStub, new_proxy: NewProxy) -> None:
    proxy = new_proxy(new_stub("encoder"), new_stub("prefill_decode"), threads=THREADS)
    assert proxy.ask("POST", CHAT, chat(image("first", uuid="cat"))).status == 200

    async def one(client: Client, number: int) -> None:
        name = "first" if number % 2 else "second"
        status, _ = await client.ask("POST", CHAT, chat(image(name, uuid="cat")))
        assert status == (200 if number % 2 else 400)

    together(proxy.port, one)


def test_an_engine_that_registers_serves_on_all_threads(
    new_stub: NewStub, new_proxy: NewProxy, token_file: object
) -> None:
    engine: StubEngine = new_stub("colocated")
    proxy = new_proxy(threads=THREADS, ready=False, token_file=token_file)
    body = f'{{"role":"colocated","url":"{engine.url}"}}'.encode()

    def asked() -> Answer:
        headers = {"authorization": f"Bearer {TOKEN}"}
        return proxy.ask("POST", "/v1/instances", body, headers)

    assert asked().status in {200, 201}
    until(lambda: proxy.ask("GET", "/readyz").status == 200, "it is ready")

    async def one(client: Client, number: int) -> None:
        status, said = await client.ask("POST", CHAT, chat(text=f"{number}"))
        assert status == 200, said

    together(proxy.port, one)
