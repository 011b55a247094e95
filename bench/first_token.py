"""Time to first token on real engines: KV handed from prefill to decode, beside vLLM's
NixlConnector and a colocated engine; features handed from encoder to prefill, beside vLLM's disk
connector.

Every arm runs the same model with the same flags on the same machine, in turns. Times are taken by
the client: from sending a streamed request until its first event with content.
"""

import json
import re
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deployment import Deployment, EngineSpec
from images import NewImages
from openai_client import Json, chat, first_token, page, post
from plan import Plan
from programs import Series
from real_engines import LARGE_PX, by_disk, deployment, model
from results import Results

PEER_BUDGET_S = 120.0  # what a slow peer may cost


def measure_handoff(build: Path, plan: Plan, results: Results, folder: Path) -> None:
    nixl = {
        "kv_connector": "NixlConnector",
        "kv_role": "kv_both",
        "kv_buffer_device": "cpu",
        "kv_load_failure_policy": "recompute",
    }
    peer = ("--kv-transfer-config", json.dumps(nixl))
    engines = [
        EngineSpec("prefill", "prefill"),
        EngineSpec("decode", "decode"),
        EngineSpec("colocated", "colocated"),
        EngineSpec("nixl-prefill", "colocated", peer, _side_channel(5600)),
        EngineSpec("nixl-decode", "colocated", peer, _side_channel(5700)),
    ]
    with deployment(build, folder / "handoff", model("deep"), engines) as up:
        ours: list[float] = []
        theirs: list[float] = []
        alone: list[float] = []
        spent = 0.0
        before = _counters(up.ports["prefill"])
        for turn in range(plan.ttft_samples + 1):
            text = _prompt(plan.ttft_prompt_tokens, turn)
            handoff = {"do_remote_decode": True, "sluice_handoff": f"{turn + 1:032x}"}
            mine = _handed(up, "prefill", "decode", text, handoff)
            one = first_token(up.ports["colocated"], chat(text))
            took = 0.0
            if spent < PEER_BUDGET_S:
                began = time.monotonic()
                asked = {"do_remote_decode": True, "do_remote_prefill": False, **_NOBODY}
                took = _handed(up, "nixl-prefill", "nixl-decode", text, asked)
                spent += time.monotonic() - began
            if turn == 0:  # the first request to an engine is slow
                before = _counters(up.ports["prefill"])
                continue
            ours.append(mine)
            alone.append(one)
            theirs += [took] if took else []
        after = _counters(up.ports["prefill"])
    series = {"sluice_s": ours, "colocated_s": alone, "nixl_s": theirs}
    sent, waited = (after[name] - before[name] for name in ("send_us", "save_wait_us"))
    moved = {"send_us": [sent], "save_wait_us": [waited]}
    results.put(
        "handoff_overlap", 1 - waited / sent, moved, f"{sent / len(ours) / 1e3:.1f} ms each"
    )
    mine, one = statistics.median(ours), statistics.median(alone)
    note = f"{1e3 * mine:.0f} ms"
    results.put(
        "decode_ttft_vs_nixl",
        statistics.median(theirs) / mine,
        series,
        f"{note} against {1e3 * statistics.median(theirs):.0f} ms, {len(theirs)} of theirs",
    )
    results.put("decode_ttft_vs_colocated", mine / one, series, f"{note}, {1e3 * one:.0f} ms")


def measure_features(build: Path, plan: Plan, results: Results, folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    engines = [
        EngineSpec("encoder", "encoder"),
        EngineSpec("prefill-decode", "prefill_decode"),
        EngineSpec("disk-encoder", "colocated", by_disk("ec_producer", disk)),
        EngineSpec("disk-decode", "colocated", by_disk("ec_consumer", disk)),
    ]
    with deployment(build, folder / "features", model("wide"), engines, proxy=True) as up:
        _compare_features(up, plan, results)


def _compare_features(up: Deployment, plan: Plan, results: Results) -> None:
    fresh = NewImages(LARGE_PX)

    def ours(image: str) -> float:
        return first_token(up.ports["proxy"], chat("What is it? ", image))

    def theirs(image: str) -> float:
        """As vLLM's example of a proxy does: the encoder first, then the whole request."""
        began = time.monotonic()
        post(up.ports["disk-encoder"], chat("", image, max_tokens=1, stream=False), up.token)
        before = time.monotonic() - began
        return before + first_token(up.ports["disk-decode"], chat("What is it? ", image), up.token)

    for ask in (ours, theirs):
        ask(fresh.next())
    series: Series = {}
    ratios = []
    for concurrent in plan.ttft_concurrency:
        mine: list[float] = []
        others: list[float] = []
        for turn in range(max(1, plan.ttft_images // concurrent)):
            sides = [(ours, mine), (theirs, others)]
            for ask, took in sides if turn % 2 == 0 else reversed(sides):
                took += _at_once(ask, [fresh.next() for _ in range(concurrent)], concurrent)
        series |= {f"sluice_{concurrent}_s": mine, f"disk_{concurrent}_s": others}
        ratios.append(statistics.mean(others) / statistics.mean(mine))
    shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    results.put("epd_ttft_vs_disk", min(ratios), series, f"at {plan.ttft_concurrency}: {shown}")

    images = [fresh.next() for _ in range(plan.ttft_images)]
    distinct = _at_once(ours, images, 1)
    _empty_caches(up)
    repeated = _at_once(ours, images, 1)
    series = {"distinct_s": distinct, "repeated_s": repeated}
    first, again = statistics.median(distinct), statistics.median(repeated)
    note = f"{1e3 * first:.0f} ms, then {1e3 * again:.0f} ms"
    results.put("epd_repeat_speedup", first / again, series, note)
    results.put("encode_skip_ttft_ms", 1e3 * (first - again), series)


_NOBODY = dict.fromkeys(
    ("remote_engine_id", "remote_block_ids", "remote_host", "remote_port"), None
)


def _handed(up: Deployment, prefill: str, decode: str, text: str, asked: Json) -> float:
    """Has one engine compute the prompt; the time to first token of the other."""
    body = chat(text, max_tokens=1, stream=False, kv_transfer_params=asked)
    params = post(up.ports[prefill], body, up.token)["kv_transfer_params"]
    if not params or not params.get("do_remote_prefill"):
        raise RuntimeError(f"{prefill} handed nothing off: {params}")
    return first_token(up.ports[decode], chat(text, kv_transfer_params=params), up.token)


def _counters(port: int) -> dict[str, float]:
    """What an engine's KV connector has counted."""
    found = re.findall(r"^sluice_kv_(\w+?)_total\S* (\S+)$", page(port, "/metrics"), re.MULTILINE)
    return {name: float(value) for name, value in found}


def _at_once(ask: Callable[[str], float], images: Sequence[str], concurrent: int) -> list[float]:
    with ThreadPoolExecutor(concurrent) as pool:
        return list(pool.map(ask, images))


def _empty_caches(up: Deployment) -> None:
    """The consumer forgets every feature and every processed image; the arena does not."""
    for path in ("/reset_encoder_cache", "/reset_mm_cache"):
        post(up.ports["prefill-decode"], {}, path=path)


def _prompt(tokens: int, salt: int) -> str:
    """The models' tokenizer makes one token of each letter."""
    return "".join(chr(97 + (n * 7 + n // 13 + salt) % 26) for n in range(tokens))


def _side_channel(port: int) -> dict[str, str]:
    return {"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(port)}
