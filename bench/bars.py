"""The numbers, what each means, and the bar it is held to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Bar:
    meaning: str
    unit: str
    sense: Literal["at least", "at most"]
    value: float

    def met(self, figure: float) -> bool:
        return figure >= self.value if self.sense == "at least" else figure <= self.value

    def text(self) -> str:
        return f"{'>=' if self.sense == 'at least' else '<='} {self.value:g}"


def _least(value: float, meaning: str, unit: str = "x") -> Bar:
    return Bar(meaning, unit, "at least", value)


def _most(value: float, meaning: str, unit: str) -> Bar:
    return Bar(meaning, unit, "at most", value)


STORE: dict[str, Bar] = {
    "put_memcpy_ratio_16m": _least(0.85, "put of 16 MiB without checksums / memcpy"),
    "put_checksum_ratio_16m": _least(0.65, "put of 16 MiB with checksums / memcpy"),
    "first_pass_ratio": _least(0.7, "a new client's first pass over a warm arena / its later ones"),
    "get_us_p50": _most(2, "get and release of a present, verified object, C++", "us"),
    "py_get_us_p50": _most(15, "the same to a torch tensor, Python", "us"),
    "verified_get_memcpy_ratio_16m": _least(0.55, "first get, verified and copied out / memcpy"),
    "lookup_ns_per_key": _most(300, "look-up in batches of 64, 100,000 objects", "ns"),
    "lookup_scaling": _most(3, "look-up among 1,000,000 objects / among 10,000", "x"),
    "small_put_us_p50": _most(25, "put of 4 KiB until another process, polling, sees it", "us"),
    "small_put_wait_us_p50": _most(45, "the same with that process blocked in wait()", "us"),
    "py_put_ratio_7m": _least(0.65, "Python put of a 7 MiB bf16 tensor / torch copy_ of it"),
    "put_vs_mooncake_16m": _least(10, "put of 16 MiB / Mooncake Store over TCP"),
    "get_vs_mooncake_16m": _least(6, "get of 16 MiB, verified and copied out / Mooncake's get"),
    "get_touch_vs_mooncake_16m": _least(6, "new reader, no copy, every line read / its get"),
    "put_vs_safetensors_16m": _least(8, "put of 16 MiB / safetensors file"),
    "overhead_bytes_per_object": _most(256, "index and records, 100,000 objects", "B"),
    "arena_utilisation": _least(0.88, "payload / arena at the first out_of_space", "1"),
    "idle_cpu_percent": _most(0.5, "sluiced with 4 clients attached and no traffic", "%"),
    "clients_scaling": _least(1.7, "get rate of 2 reader processes / 1"),
    "engine_save_ms_7m": _most(1.0, "what saving a 7 MB feature adds to the engine's step", "ms"),
    "engine_load_ms_7m": _most(0.3, "what loading a 7 MB feature adds to the engine's step", "ms"),
}

SERVING: dict[str, Bar] = {
    "proxy_pd_vs_router_small": _least(1.3, "prefill and decode, small requests / vllm-router"),
    "proxy_pd_vs_router_200k": _least(1.5, "prefill and decode, 200 KB requests / vllm-router"),
    "proxy_epd_vs_router_pd_200k": _least(
        1.0, "three stages, distinct 200 KB images / vllm-router's two stages"
    ),
    "proxy_added_ms_p99": _most(2, "added to a stub engine at half of peak load, P99", "ms"),
    "proxy_stream_events_per_s_ratio": _least(1.3, "relayed stream events a second / vllm-router"),
    "proxy_kib_per_idle_connection": _most(16, "memory of a kept connection", "KiB"),
    "handoff_memcpy_ratio": _least(0.7, "64 MiB of KV gathered, moved, scattered / two memcpys"),
    "handoff_overlap_sim": _least(0.8, "share of a hand-off hidden behind simulated compute"),
    "handoff_overlap": _least(0, "the same in a real prefill's steps, CPU engine"),
    "decode_ttft_vs_nixl": _least(2, "decode's first token: NixlConnector / ours"),
    "decode_ttft_vs_colocated": _most(1.3, "decode's first token: ours / colocated prefill", "x"),
    "epd_ttft_vs_disk": _least(1.1, "first token, new 7 MB features: disk connector / ours"),
    "epd_repeat_speedup": _least(1.5, "first token: new images / images whose feature is there"),
    "encode_skip_ttft_ms": _least(0, "what a skipped encode saves before the first token", "ms"),
}

BARS = {**STORE, **SERVING}


def table(figures: Mapping[str, float], notes: Mapping[str, str], *, judged: bool = True) -> str:
    """Every number with its bar beside it, and whether it is met. `notes`: more about a number."""
    lines = [f"{'number':31}{'figure':>10} {'unit':<3}{'bar':>9}  {'':5} meaning"]
    for name, bar in BARS.items():
        figure = figures.get(name)
        shown = "missing" if figure is None else f"{figure:.4g}"
        verdict = ""
        if judged and figure is not None:
            verdict = "pass" if bar.met(figure) else "MISS"
        meaning = bar.meaning + (f" ({notes[name]})" if name in notes else "")
        lines.append(f"{name:31}{shown:>10} {bar.unit:<3}{bar.text():>9}  {verdict:5} {meaning}")
    return "\n".join(lines)
