"""Time to first token on real engines: KV handed from prefill to decode, beside vLLM's
NixlConnector and a colocated engine; features handed from encoder to prefill, beside vLLM's disk
connector.

Every arm runs the same model with the same flags on the same machine, in turns. Times are taken by
the client: from sending a streamed request until its first event with content.
"""

import base64
import http.client
import io
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from deployment import Deployment, EngineSpec
from plan import Plan
from programs import Series, run
from results import Results

ROOT = Path(__file__).resolve().parent.parent
CHAT = "/v1/chat/completions"
TIMEOUT_S = 120.0
PEER_BUDGET_S = 120.0  # what a slow peer may cost
FLAGS = (
    *("--served-model-name", "m", "--dtype", "bfloat16", "--enforce-eager"),
    *("--max-model-len", "8192", "--max-num-seqs", "8", "--no-enable-prefix-caching"),
)
FEATURE_WIDTH = 896  # x 4 levels (DeepStack) x 2 bytes x about 1,000 rows: 7 MB
IMAGE_PX = 1024
Json = dict[str, Any]


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
    model = _model("qwen2_5_vl")
    with _deployment(build, folder / "handoff", model, engines) as up:
        ours: list[float] = []
        theirs: list[float] = []
        alone: list[float] = []
        spent = 0.0
        before = _counters(up.ports["prefill"])
        for turn in range(plan.ttft_samples + 1):
            text = _prompt(plan.ttft_prompt_tokens, turn)
            handoff = {"do_remote_decode": True, "sluice_handoff": f"{turn + 1:032x}"}
            mine = _handed(up, "prefill", "decode", text, handoff)
            one = first_token(up.ports["colocated"], _body(text))
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

    def by_disk(role: str) -> tuple[str, ...]:
        transfer = {
            "ec_connector": "ECExampleConnector",
            "ec_role": role,
            "ec_connector_extra_config": {"shared_storage_path": str(disk)},
        }
        return ("--ec-transfer-config", json.dumps(transfer))

    engines = [
        EngineSpec("encoder", "encoder"),
        EngineSpec("prefill-decode", "prefill_decode"),
        EngineSpec("disk-encoder", "colocated", by_disk("ec_producer")),
        EngineSpec("disk-decode", "colocated", by_disk("ec_consumer")),
    ]
    model = _model("qwen3_vl", "--width", str(FEATURE_WIDTH))
    with _deployment(build, folder / "features", model, engines, proxy=True) as up:
        _compare_features(up, plan, results)


def _compare_features(up: Deployment, plan: Plan, results: Results) -> None:
    fresh = _Images()

    def ours(image: str) -> float:
        return first_token(up.ports["proxy"], _body("What is it? ", image))

    def theirs(image: str) -> float:
        """As vLLM's example of a proxy does: the encoder first, then the whole request."""
        began = time.monotonic()
        _post(up, "disk-encoder", _body("", image, max_tokens=1, stream=False))
        before = time.monotonic() - began
        return before + first_token(up.ports["disk-decode"], _body("What is it? ", image), up.token)

    for ask in (ours, theirs):
        ask(fresh.next())
    series: Series = {}
    ratios = []
    for concurrent in plan.ttft_concurrency:
        images = [fresh.next() for _ in range(max(plan.ttft_images, concurrent))]
        mine = _at_once(ours, images, concurrent)
        others = _at_once(theirs, [fresh.next() for _ in images], concurrent)
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


def first_token(port: int, body: Json, token: str = "") -> float:
    """Seconds until the first event with content. Raises RuntimeError without one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    began = time.monotonic()
    connection.request("POST", CHAT, json.dumps(body), headers)
    reply = connection.getresponse()
    if reply.status != 200:
        raise RuntimeError(f"port {port}: HTTP {reply.status}: {reply.read()[:300]!r}")
    took = 0.0
    for line in reply:
        if took or not line.startswith(b"data: {"):
            continue
        for choice in json.loads(line[6:]).get("choices", []):
            if choice["delta"].get("content") or choice.get("finish_reason"):
                took = time.monotonic() - began
    connection.close()
    if not took:
        raise RuntimeError(f"port {port}: a stream without content")
    return took


_NOBODY = dict.fromkeys(
    ("remote_engine_id", "remote_block_ids", "remote_host", "remote_port"), None
)


def _handed(up: Deployment, prefill: str, decode: str, text: str, asked: Json) -> float:
    """Has one engine compute the prompt; the time to first token of the other."""
    body = _body(text, max_tokens=1, stream=False, kv_transfer_params=asked)
    params = _post(up, prefill, body)["kv_transfer_params"]
    if not params or not params.get("do_remote_prefill"):
        raise RuntimeError(f"{prefill} handed nothing off: {params}")
    return first_token(up.ports[decode], _body(text, kv_transfer_params=params), up.token)


def _counters(port: int) -> dict[str, float]:
    """What an engine's KV connector has counted."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    found = re.findall(r"^sluice_kv_(\w+?)_total\S* (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def _at_once(ask: Callable[[str], float], images: Sequence[str], concurrent: int) -> list[float]:
    with ThreadPoolExecutor(concurrent) as pool:
        return list(pool.map(ask, images))


def _empty_caches(up: Deployment) -> None:
    """The consumer forgets every feature and every processed image; the arena does not."""
    for path in ("/reset_encoder_cache", "/reset_mm_cache"):
        connection = http.client.HTTPConnection("127.0.0.1", up.ports["prefill-decode"], timeout=60)
        connection.request("POST", path)
        if connection.getresponse().status != 200:
            raise RuntimeError(f"{path} was refused")
        connection.close()


def _post(up: Deployment, name: str, body: Json) -> Json:
    connection = http.client.HTTPConnection("127.0.0.1", up.ports[name], timeout=TIMEOUT_S)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {up.token}"}
    connection.request("POST", CHAT, json.dumps(body), headers)
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    if reply.status != 200:
        raise RuntimeError(f"{name}: HTTP {reply.status}: {text[:300]!r}")
    return dict(json.loads(text))


def _body(text: str, image: str = "", **more: Any) -> Json:
    content: list[Json] = [{"type": "text", "text": text}] if text else []
    if image:
        content.append({"type": "image_url", "image_url": {"url": image}})
    return {
        "model": "m",
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        "max_tokens": 4,
        "stream": True,
        **more,
    }


def _prompt(tokens: int, salt: int) -> str:
    """The models' tokenizer makes one token of each letter."""
    return "".join(chr(97 + (n * 7 + n // 13 + salt) % 26) for n in range(tokens))


class _Images:
    """One new image after another: a photograph's size, content that no other has."""

    def __init__(self) -> None:
        self._number = 0

    def next(self) -> str:
        from PIL import Image

        self._number += 1
        tile = Image.effect_noise((64, 64), 80 + self._number % 40).convert("RGB")
        image = tile.resize((IMAGE_PX, IMAGE_PX))
        image.putpixel((0, 0), (self._number % 256, self._number // 256, 0))
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=90)
        return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def _side_channel(port: int) -> dict[str, str]:
    return {"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(port)}


def _deployment(
    build: Path, folder: Path, model: Path, engines: list[EngineSpec], proxy: bool = False
) -> Deployment:
    folder.mkdir(parents=True)
    path = os.pathsep.join(map(str, (build / "python", ROOT / "demo" / "support")))
    environment = {
        "PYTHONPATH": path,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_SERVER_DEV_MODE": "1",
    }
    return Deployment(
        build,
        folder,
        model,
        engines,
        args=FLAGS,
        env=environment,
        python=sys.executable,
        proxy=proxy,
    )


def _model(kind: str, *options: str) -> Path:
    folder = ROOT / "build" / "bench" / "models" / "-".join((kind, *options[1:]))
    run([sys.executable, ROOT / "demo" / "models.py", kind, folder, *options])
    return folder
