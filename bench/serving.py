"""The proxy's numbers, each beside vllm-router in the same run, before the same scripted engines.

The sides take turns; a figure is the median of the quotients of neighbouring turns.
"""

import contextlib
import json
import re
import socket
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import serving_sides
from plan import Plan
from programs import Series, run
from results import Results, pair_ratio
from serving_sides import Side

CONNECTIONS = 32
LARGE_BYTES = 200_000
STREAM_EVENTS = 200
MARK = "@" * 8  # becomes the request's number
NS_PER_MS = 1e6
US_PER_S = 1e6


@dataclass(frozen=True)
class Sides:
    engine: Side  # decode's stub, asked without anything before it
    plain: Side  # our proxy before that one engine
    pd: Side  # before prefill and decode
    epd: Side  # before encoder, prefill and decode
    router: Side  # vllm-router before prefill and decode


def measure(build: Path, plan: Plan, results: Results, folder: Path) -> None:
    with _sides(build, folder) as sides:
        load = Load(build, plan, folder)
        small = load.body("small", {"content": "hi"})
        _compare(results, load, plan, "proxy_pd_vs_router_small", small, sides.pd, sides.router)
        large = load.body("large", {"content": "x" * LARGE_BYTES})
        _compare(results, load, plan, "proxy_pd_vs_router_200k", large, sides.pd, sides.router)
        image = load.body("image", {"content": [_image(), {"type": "text", "text": "what?"}]})
        _compare(results, load, plan, "proxy_epd_vs_router_pd_200k", image, sides.epd, sides.router)
        _added(results, load, plan, small, sides)
        _idle(build, folder, results, plan, sides.engine)
        sides.engine.post("/stub", json.dumps({"default": {"events": STREAM_EVENTS}}).encode())
        stream = load.body("stream", {"content": "hi"}, stream=True)
        name = "proxy_stream_events_per_s_ratio"
        _compare(results, load, plan, name, stream, sides.pd, sides.router, of="events")


class Load:
    """Runs the load generator against a port."""

    def __init__(self, build: Path, plan: Plan, folder: Path) -> None:
        self._program = build / "bench" / "bench_http_load"
        self._seconds = plan.serving_s
        self._folder = folder

    def body(self, name: str, message: dict[str, object], *, stream: bool = False) -> Path:
        body = {
            "model": "stub",
            "messages": [{"role": "user", **message}],
            "max_tokens": 4,
            "stream": stream,
        }
        file = self._folder / f"{name}.json"
        file.write_text(json.dumps(body))
        return file

    def run(self, side: Side, body: Path, rate: float = 0) -> Series:
        paced = ("--rate", f"{rate:.1f}") if rate else ()
        return run(
            [
                *(self._program, "--port", str(side.port), "--connections", str(CONNECTIONS)),
                *("--seconds", str(self._seconds), "--body", body, *paced),
            ]
        )


@contextlib.contextmanager
def _sides(build: Path, folder: Path) -> Iterator[Sides]:
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        encoder = enter(serving_sides.engine(build, "encoder", folder))
        prefill = enter(serving_sides.engine(build, "prefill", folder))
        decode = enter(serving_sides.engine(build, "decode", folder))
        two = {"prefill": prefill, "decode": decode}
        yield Sides(
            engine=decode,
            plain=enter(serving_sides.proxy(build, folder, {"colocated": decode})),
            pd=enter(serving_sides.proxy(build, folder, two)),
            epd=enter(serving_sides.proxy(build, folder, {"encoder": encoder, **two})),
            router=enter(serving_sides.router(folder, prefill, decode)),
        )


def _compare(
    results: Results,
    load: Load,
    plan: Plan,
    name: str,
    body: Path,
    ours: Side,
    peer: Side,
    of: str = "requests",
) -> None:
    rates: Series = {"sluice_per_s": [], "router_per_s": []}
    cost: Series = {"sluice_cpu_us": [], "router_cpu_us": []}  # of one request, or one event
    for turn in range(plan.serving_rounds):
        both = [("sluice", ours), ("router", peer)]
        for who, side in both if turn % 2 == 0 else reversed(both):
            cpu_s = side.cpu_s()
            got = load.run(side, body)
            rates[f"{who}_per_s"].append(got[of][0] / got["seconds"][0])
            cost[f"{who}_cpu_us"].append((side.cpu_s() - cpu_s) * US_PER_S / got[of][0])
    figure = pair_ratio(rates["sluice_per_s"], rates["router_per_s"])
    ours_per_s, peers_per_s = (statistics.median(samples) for samples in rates.values())
    ours_us, peers_us = (statistics.median(samples) for samples in cost.values())
    note = (
        f"{ours_per_s:,.0f} to {peers_per_s:,.0f} {of}/s, "
        f"{ours_us:,.1f} to {peers_us:,.1f} us of a processor each"
    )
    results.put(name, figure, {**rates, **cost}, note)


def _added(results: Results, load: Load, plan: Plan, body: Path, sides: Sides) -> None:
    """Both at half of what the proxy can do, due times fixed, so that waiting counts."""
    peak = load.run(sides.plain, body)
    rate = peak["requests"][0] / peak["seconds"][0] / 2
    samples: Series = {"direct_p99_ms": [], "proxied_p99_ms": []}
    for _ in range(plan.serving_rounds):
        for name, side in (("direct_p99_ms", sides.engine), ("proxied_p99_ms", sides.plain)):
            samples[name].append(_p99(load.run(side, body, rate)["latency_ns"]) / NS_PER_MS)
    pairs = zip(samples["proxied_p99_ms"], samples["direct_p99_ms"], strict=True)
    added = [proxied - direct for proxied, direct in pairs]
    direct, proxied = (statistics.median(samples[name]) for name in samples)
    note = f"{direct:.2f} ms without, {proxied:.2f} with, at {rate:,.0f} requests/s"
    results.put("proxy_added_ms_p99", statistics.median(added), samples, note)


def _idle(build: Path, folder: Path, results: Results, plan: Plan, engine: Side) -> None:
    """Connections of a fresh proxy that have been answered once and are kept."""
    with serving_sides.proxy(build, folder, {"colocated": engine}) as side:
        for connection in _hold(side, 50):  # what the first connections cost is over
            connection.close()
        before = _resident_kib(side)
        held = _hold(side, plan.serving_idle)
        grown = _resident_kib(side) - before
        for connection in held:
            connection.close()
    samples: Series = {"grown_kib": [float(grown)], "connections": [float(plan.serving_idle)]}
    results.put("proxy_kib_per_idle_connection", grown / plan.serving_idle, samples)


def _hold(side: Side, count: int) -> list[socket.socket]:
    """Connections with one answered request each."""
    body = b'{"model":"stub","messages":[{"role":"user","content":"hi"}]}'
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {len(body)}\r\n\r\n"
    held = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", side.port), timeout=10.0)
        connection.sendall(head.encode() + body)
        if not connection.recv(1 << 16).startswith(b"HTTP/1.1 200 "):
            raise RuntimeError("the proxy does not answer a small request")
        held.append(connection)
    return held


def _resident_kib(side: Side) -> int:
    text = Path(f"/proc/{side.pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB$", text, re.MULTILINE)
    if found is None:
        raise RuntimeError("the proxy has no resident memory")
    return int(found[1])


def _p99(samples: list[float]) -> float:
    return sorted(samples)[int(len(samples) * 0.99)]


def _image() -> dict[str, object]:
    """Of the same size as the large text, and another one in each request."""
    data = MARK + "A" * (LARGE_BYTES - len(MARK))
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
