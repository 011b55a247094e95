"""Time to first token on real engines: KV handed from prefill to decode, beside vLLM's
NixlConnector and a colocated engine; features handed from encoder to prefill, beside vLLM's disk
connector.

Every arm runs the same model with the same flags on the same machine, in turns; NixlConnector's
engines, whose threads spin while they wait, are stopped when it is another's turn, and the others
when it is theirs. Times are taken by the client of a streamed answer: until its first token for
hand-offs, until its first content for features, before which the proxy lets nothing through.
"""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from deployment import Deployment, EngineSpec
from handoffs import Handoffs
from handoffs import Took as HandedOff
from images import NewImages
from openai_client import chat, post, stream
from plan import Plan
from programs import Series
from real_engines import LARGE_PX, by_disk, deployment, model
from results import Results

IDLE_S = 3.0  # for which waiting engines are watched


def measure_handoff(build: Path, plan: Plan, results: Results, folder: Path) -> None:
    nixl = {
        "kv_connector": "NixlConnector",
        "kv_role": "kv_both",
        "kv_buffer_device": "cpu",
        "kv_load_failure_policy": "recompute",
    }
    peer = ("--kv-transfer-config", json.dumps(nixl))
    our_engines = [EngineSpec(role, role) for role in ("prefill", "decode", "colocated")]
    their_engines = [
        EngineSpec("prefill", "colocated", peer, _side_channel(5600)),
        EngineSpec("decode", "colocated", peer, _side_channel(5700)),
    ]
    from sluice._core import Client

    with (
        deployment(build, folder / "handoff", model("deep"), our_engines) as ours,
        Client.attach(directory=ours.arena, label="bench", timeout=10.0) as client,
        deployment(build, folder / "handoff-nixl", model("deep"), their_engines) as theirs,
    ):
        _compare_handoffs(ours, theirs, Handoffs(ours, theirs, client), plan, results)


def _compare_handoffs(
    ours: Deployment, theirs: Deployment, handoffs: Handoffs, plan: Plan, results: Results
) -> None:
    of_ours: dict[str, Callable[[str], HandedOff]] = {
        "after_commit": handoffs.after_commit,
        "at_first_group": handoffs.at_first_group,
        "colocated": handoffs.colocated,
        "one_token": handoffs.nothing,
    }
    turns = [("ours", ours, theirs, of_ours), ("nixl", theirs, ours, {"nixl": handoffs.by_nixl})]
    series: Series = {}
    before: dict[str, float] = {}
    for turn in range(plan.ttft_samples + 1):
        text = _prompt(plan.ttft_prompt_tokens, turn)
        for _, _, resting, arms in turns:
            with resting.stopped():
                for name, ask in arms.items():
                    took = ask(text)
                    if turn > 0:  # the first request to an engine is slow
                        series.setdefault(f"{name}_s", []).append(took.first_s)
                        series.setdefault(f"{name}_prefill_s", []).append(took.prefill_s)
        before = before or handoffs.counted()
    for name, up, resting, _ in turns:
        with resting.stopped():
            series[f"{name}_idle_processors"] = [_idle_processors(up)]
    _report_handoffs(series, before, handoffs.counted(), results)


def _idle_processors(up: Deployment) -> float:
    """How many its engines keep busy while nobody asks anything."""
    cpu_s, began = up.cpu_s(), time.monotonic()
    time.sleep(IDLE_S)
    return (up.cpu_s() - cpu_s) / (time.monotonic() - began)


def _report_handoffs(
    series: Series, before: dict[str, float], after: dict[str, float], results: Results
) -> None:
    sent, waited = (after[name] - before[name] for name in ("send_us", "save_wait_us"))
    count = len(series["after_commit_s"]) + len(series["at_first_group_s"])
    moved = {"send_us": [sent], "save_wait_us": [waited]}
    results.put("handoff_overlap", 1 - waited / sent, moved, f"{sent / count / 1e3:.1f} ms each")
    ms = {
        name: 1e3 * statistics.median(samples)
        for name, samples in series.items()
        if name.endswith("_s")
    }
    # Decode may be as quick as prefill's own answer: a figure is then a lower bound.
    ms |= {name: max(value, 1.0) for name, value in ms.items() if not name.endswith("_prefill_s")}
    ours, other = sorted(("after_commit", "at_first_group"), key=lambda name: ms[f"{name}_s"])
    shown = "; ".join(
        f"{name.replace('_', ' ')} {ms[f'{name}_prefill_s']:.0f} + {ms[f'{name}_s']:.0f} ms"
        for name in ("nixl", ours, other)
    )
    spin = [series[f"{name}_idle_processors"][0] for name in ("nixl", "ours")]
    note = (
        f"prefill + decode: {shown}; a prompt of one token takes {ms['one_token_s']:.0f} ms; "
        f"waiting, nixl's two engines keep {spin[0]:.1f} processors busy, ours {spin[1]:.1f}"
    )
    results.put("decode_ttft_vs_nixl", ms["nixl_s"] / ms[f"{ours}_s"], series, note)
    figure = ms[f"{ours}_s"] / ms["colocated_s"]
    note = f"{ms[f'{ours}_s']:.0f} ms to {ms['colocated_s']:.0f} ms"
    results.put("decode_ttft_vs_colocated", figure, series, note)


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

    def ours(image: str) -> Took:
        got = stream(up.ports["proxy"], chat("What is it? ", image))
        return Took(got.stages_ms.get("encode", 0.0) / 1e3, got.first_s)

    def theirs(image: str) -> Took:
        """As vLLM's example of a proxy does: the encoder first, then the whole request."""
        began = time.monotonic()
        post(up.ports["disk-encoder"], chat("", image, max_tokens=1, stream=False), up.token)
        encoded_s = time.monotonic() - began
        rest_s = stream(up.ports["disk-decode"], chat("What is it? ", image), up.token).first_s
        return Took(encoded_s, encoded_s + rest_s)

    for ask in (ours, theirs):
        ask(fresh.next())
    series: Series = {}
    ratios = []
    notes = []
    for concurrent in plan.ttft_concurrency:
        mine: list[Took] = []
        others: list[Took] = []
        for turn in range(max(1, plan.ttft_images // concurrent)):
            sides = [(ours, mine), (theirs, others)]
            for ask, took in sides if turn % 2 == 0 else reversed(sides):
                took += _at_once(ask, [fresh.next() for _ in range(concurrent)], concurrent)
        for name, found in (("sluice", mine), ("disk", others)):
            series[f"{name}_{concurrent}_s"] = [one.first_s for one in found]
            series[f"{name}_{concurrent}_encode_s"] = [one.encode_s for one in found]
        ratios.append(_mean_ms(others) / _mean_ms(mine))
        notes.append(f"at {concurrent}: {_shown(others)} to {_shown(mine)}")
    results.put("epd_ttft_vs_disk", min(ratios), series, f"encode + rest, {', '.join(notes)}")

    images = [fresh.next() for _ in range(plan.ttft_images)]
    distinct = [one.first_s for one in _at_once(ours, images, 1)]
    _empty_caches(up)
    repeated = [one.first_s for one in _at_once(ours, images, 1)]
    series = {"distinct_s": distinct, "repeated_s": repeated}
    first, again = statistics.median(distinct), statistics.median(repeated)
    note = f"{1e3 * first:.0f} ms, then {1e3 * again:.0f} ms"
    results.put("epd_repeat_speedup", first / again, series, note)
    results.put("encode_skip_ttft_ms", 1e3 * (first - again), series)


@dataclass(frozen=True)
class Took:
    encode_s: float  # until the encoder had answered
    first_s: float  # until the first token


def _mean_ms(took: Sequence[Took]) -> float:
    return 1e3 * statistics.mean(one.first_s for one in took)


def _shown(took: Sequence[Took]) -> str:
    encode = 1e3 * statistics.mean(one.encode_s for one in took)
    return f"{encode:.0f} + {_mean_ms(took) - encode:.0f} ms"


def _at_once(ask: Callable[[str], Took], images: Sequence[str], concurrent: int) -> list[Took]:
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
