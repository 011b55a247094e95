"""SIGTERM: not ready, nothing new, what runs is finished up to the drain time, exit 0."""

import asyncio
import time
from pathlib import Path

import raw_http
from chat import CHAT, chat, read_stream
from crowd import Client
from proxy_process import Proxy
from raw_http import request
from setups import NewStub, soak
from waiting import until


def test_streams_finish_and_the_exit_code_is_0(build_dir: Path, new_stub: NewStub) -> None:
    engine = new_stub("colocated")
    script = {"colocated": {"events": 20, "interval_ms": 50}}
    with Proxy(build_dir, engine.instance, drain_timeout="20s") as proxy:
        with proxy.connect() as connection:
            connection.send(request("POST", CHAT, chat(stream=True, stub=script)))
            head = connection.head()
            proxy.terminate()
            stream = read_stream(connection.pieces(head))
            assert stream.is_whole
            assert stream.has_first(20)
        assert proxy.wait(10) == 0
    assert engine.counts()["cancelled"] == 0


def test_nothing_new_is_taken_while_it_drains(build_dir: Path, new_stub: NewStub) -> None:
    engine = new_stub("colocated")
    script = {"colocated": {"events": 1_000, "interval_ms": 20}}
    with (
        Proxy(build_dir, engine.instance, drain_timeout="2s") as proxy,
        proxy.connect() as connection,
        proxy.connect() as idle,
    ):
        assert idle.ask("GET", "/livez").status == 200
        connection.send(request("POST", CHAT, chat(stream=True, stub=script)))
        assert connection.head().status == 200
        began = time.monotonic()
        proxy.terminate()
        assert idle.is_closed()

        def refuses() -> bool:
            try:
                return proxy.ask("GET", "/readyz", timeout_s=1).status != 200
            except (OSError, raw_http.Broken):
                return True

        until(refuses, "it is not ready any more")
        assert proxy.wait(20) == 0
        assert 1.5 < time.monotonic() - began < 10, "the drain time was not kept"
    until(lambda: engine.counts()["in_flight"] == 0, "the engine was told")


def test_sigterm_under_load_breaks_no_answer_that_was_begun(
    build_dir: Path, new_stub: NewStub
) -> None:
    """Each request is answered rightly, or was never taken: refused, or its connection closed
    before a byte of an answer."""
    engine = new_stub("colocated")
    engine.always(delay_ms=5)
    for _ in range(soak(20, 2)):
        with Proxy(build_dir, engine.instance, drain_timeout="20s") as proxy:
            whole = asyncio.run(_load_until_refused(proxy))
            assert whole > 0
            assert proxy.wait(20) == 0
        assert engine.counts()["cancelled"] == 0


async def _load_until_refused(proxy: Proxy) -> int:
    done = 0

    async def one() -> None:
        nonlocal done
        while True:
            try:
                client = await Client.connect(proxy.port)
                while True:
                    await client.send(request("POST", CHAT, chat()))
                    try:
                        status, fields = await client.head()
                    except (asyncio.IncompleteReadError, ConnectionError):
                        return  # closed before an answer
                    body = b"".join([piece async for piece in client.pieces(fields)])
                    assert status in {200, 503}, body
                    if status == 503:
                        return
                    done += 1
                    if done == 200:
                        proxy.terminate()
            except ConnectionError:
                return

    await asyncio.wait_for(asyncio.gather(*(one() for _ in range(16))), 30)
    return done
