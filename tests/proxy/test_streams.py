"""Streams are relayed event by event: none lost, doubled, merged or out of order."""

import asyncio
import random
import time

from chat import CHAT, COMPLETIONS, chat, completion, events_of, read_stream
from crowd import Client, allow_open_files
from raw_http import Connection, request
from setups import NewProxy, NewStub, Pair, soak


def test_many_streams_lose_merge_and_reorder_nothing(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    # Ordinarily a second and a half; at full counts ten minutes.
    streams, events, interval_ms = soak(2_000, 200), soak(1_200, 30), soak(500, 50)
    engines = [new_stub(role) for role in ("encoder", "prefill", "decode")]
    proxy = new_proxy(*engines, running_max=streams, request_timeout="1h")
    allow_open_files(2 * streams)

    async def one(number: int) -> None:
        client = await Client.connect(proxy.port)
        script = {"decode": {"events": events + number % 7, "interval_ms": interval_ms}}
        status, stream = await client.stream(CHAT, chat(stream=True, stub=script))
        assert status == 200
        assert stream.is_whole
        assert stream.has_first(events + number % 7), stream.numbers
        await client.close()

    async def all_of_it() -> None:
        await asyncio.gather(*(one(number) for number in range(streams)))

    began = time.monotonic()
    asyncio.run(all_of_it())
    relayed = sum(events + number % 7 for number in range(streams))
    seconds = time.monotonic() - began
    print(f"{streams} streams for {seconds:.0f} s, {relayed} events, 0 lost, merged or reordered")
    for engine in engines:
        counts = engine.counts()
        assert counts["cancelled"] == counts["in_flight"] == counts["malformed"] == 0


def test_events_that_arrive_in_any_pieces_come_out_whole(pair: Pair, seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(soak(300, 30)):
        script = {"split": choose.randint(1, 400), "event_bytes": choose.choice([0, 0, 50, 5_000])}
        events = choose.randint(1, 12)
        body = chat(stream=True, max_tokens=events, stub={"colocated": script})
        with pair.proxy.connect() as connection:
            connection.send(request("POST", CHAT, body))
            stream = read_stream(connection.pieces(connection.head()))
            assert stream.is_whole
            assert stream.has_first(events)


def test_a_burst_of_events_is_not_merged(pair: Pair) -> None:
    body = completion(stream=True, max_tokens=5_000)
    with pair.proxy.connect() as connection:
        connection.send(request("POST", COMPLETIONS, body))
        stream = read_stream(connection.pieces(connection.head()))
    assert stream.is_whole
    assert stream.has_first(5_000)


def test_an_event_is_passed_on_when_it_comes(pair: Pair) -> None:
    """The first token is there long before the last is made."""
    script = {"colocated": {"do": "stall", "after_events": 3}}
    with pair.proxy.connect() as connection:
        connection.send(request("POST", CHAT, chat(stream=True, max_tokens=9, stub=script)))
        head = connection.head()
        assert head.status == 200
        assert (head.header("content-type") or "").startswith("text/event-stream")
        events = events_of(connection.pieces(head))
        seen = b""
        while b" 2" not in seen:
            seen += next(events)


def test_a_stream_is_as_its_engine_wrote_it(pair: Pair) -> None:
    """Comments, names, usage and odd spacing come through as they are."""
    chunks = [
        ": a comment\n\n",
        'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n',
        'data: {"choices":[{"index":0,"delta":{"content":"h\\u00e9 \\n\\n x"}, "z" : 1e5}]}\n\n',
        'data:  {"choices": [ {"index":0, "delta":{"content":"\\ud83d\\ude00"}} ] }\n\n',
        'event: x\nid: 7\ndata: {"choices":[]}\n\n',
        'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
        'data: {"choices":[],"usage":{"prompt_tokens":1}}\n\n',
        "data: [DONE]\n\n",
    ]
    script = {"colocated": {"chunks": chunks}}
    with pair.proxy.connect() as connection:
        connection.send(request("POST", CHAT, chat(stream=True, stub=script)))
        body = b"".join(connection.pieces(connection.head()))
    assert body.decode() == "".join(chunks)


def test_a_gap_in_one_stream_is_none_in_another(pair: Pair) -> None:
    """One engine stream that stalls does not hold up its neighbour."""
    stall = {"colocated": {"do": "stall", "after_events": 1}}
    with Connection(pair.proxy.port) as stalled:
        stalled.send(request("POST", CHAT, chat(stream=True, stub=stall)))
        assert stalled.head().status == 200
        began = time.monotonic()
        for _ in range(20):
            with pair.proxy.connect() as connection:
                connection.send(request("POST", CHAT, chat(stream=True)))
                assert read_stream(connection.pieces(connection.head())).is_whole
        assert time.monotonic() - began < 5


def test_streams_of_a_slow_engine_may_pause_longer_than_a_kept_connection(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    engine = new_stub("colocated", keep_alive_ms=300)
    proxy = new_proxy(engine, engine_keep_alive="300ms")
    script = {"colocated": {"events": 3, "interval_ms": 600}}
    with proxy.connect() as connection:
        connection.send(request("POST", CHAT, chat(stream=True, stub=script)))
        assert read_stream(connection.pieces(connection.head())).has_first(3)
