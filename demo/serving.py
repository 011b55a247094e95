"""The serving act of `make demo`: one endpoint in front of an encoder, a prefill and a decode
engine, which answer like one engine that does it all.

For each of two kinds of model, `sluice up` starts the engines, a colocated one for the measure, and
the proxy. Every case of cases.py goes through the endpoint, and one more as a stream. Exit code 0
only if every answer is equal and every count of engines and proxy is exactly as it must be.
"""

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cases
import models
import plant
import proxy_counters
import serving_report as report
from cases import Turn
from deployment import ROOT, Deployment, DeploymentError, Topology
from engines import Answer, Engine, Said
from evidence import Counts, Ledger
from photographs import photograph

OUT = ROOT / "build" / "demo"
BLOCK_TOKENS = 32  # --block-size of serving-*.toml
STREAMED = cases.Case(
    "streamed",
    (
        Turn(
            "Tell me more. ",
            images=("astronaut", "coffee"),
            stored=(),
            encodes_skipped=0,
            loaded=("astronaut", "coffee"),
        ),
    ),
)
ENCODES = "sluice_proxy_encodes_total"
SKIPPED = "sluice_proxy_encodes_skipped_total"
HANDOFFS = "sluice_proxy_handoffs_committed_total"
FALLBACKS = "sluice_proxy_fallbacks_total"
# How many there are follows from how prefill's steps fell; both sides must have the same.
PARTS = ("kv.parts_sent", "kv.parts_received")


@dataclass
class Stage:
    """What runs for one kind of model, and what it has been seen to do."""

    proxy: Engine
    engines: dict[str, Engine]
    ledger: Ledger
    features: models.Features
    block_bytes: int  # of one block in all layers
    proxy_before: Counter[str] = field(default_factory=Counter)

    def feature_bytes(self, names: Sequence[str]) -> int:
        pictures = map(photograph, names)
        return sum(self.features.nbytes(one.width_px, one.height_px) for one in pictures)


def play(stage: Stage, title: str, turn: Turn, history: list[Said], streamed: bool) -> report.Row:
    """Sends `history` and this turn to the endpoint and to the colocated engine, and compares;
    appends the turn, answered, to `history`."""
    row = report.Row(title)
    for engine in stage.engines.values():
        if problem := engine.empty_encoder_cache():
            row.problems.append(f"{engine.name}: its encoder cache was not emptied: {problem}")
    said = Said(turn.text, [photograph(name) for name in turn.images])
    conversation = [*history, said]
    wanted = stage.engines["colocated"].ask(conversation)
    ask = stage.proxy.ask_streamed if streamed else stage.proxy.ask
    got = ask(conversation)
    for name, answer in (("colocated", wanted), ("proxy", got)):
        if answer.error or not answer.tokens:
            row.problems.append(f"{name}: {answer.error or 'an empty answer'}")
    row.equal = bool(wanted.tokens) and got.tokens == wanted.tokens
    row.stages, row.total_ms = got.stages, got.seconds * 1e3
    row.colocated_ms = wanted.seconds * 1e3
    if not row.equal:
        row.problems.append("the answers differ")
    account(stage, turn, wanted, row)
    history.append(replace(said, answer=wanted.text))
    return row


def account(stage: Stage, turn: Turn, wanted: Answer, row: report.Row) -> None:
    """Holds what engines and proxy counted against what must have been."""
    blocks = math.ceil(wanted.prompt_tokens / BLOCK_TOKENS)
    moved = blocks * stage.block_bytes
    caused: Counts = {
        "encoder": Counter(saves=len(turn.stored), save_bytes=stage.feature_bytes(turn.stored)),
        "prefill": Counter(
            {
                "hits": len(turn.loaded),
                "loads": len(turn.loaded),
                "load_bytes": stage.feature_bytes(turn.loaded),
                "kv.handoffs": 1,
                "kv.commits": 1,
                "kv.bytes_sent": moved,
            }
        ),
        "decode": Counter(
            {"kv.matches": 1, "kv.loads": 1, "kv.bytes_received": moved, "kv.released": 1}
        ),
    }
    seen, wrong = stage.ledger.settle(caused)
    sent = seen.get("prefill", Counter())["kv.parts_sent"]
    received = seen.get("decode", Counter())["kv.parts_received"]
    if sent != received or sent == 0:
        wrong.append(f"prefill wrote {sent} parts and decode copied {received}")
    after = proxy_counters.read(stage.proxy)
    counted = after - stage.proxy_before
    stage.proxy_before = after
    new = len(turn.stored)
    expected = {ENCODES: new, SKIPPED: len(turn.loaded) - new, HANDOFFS: 1, FALLBACKS: 0}
    wrong += [
        f"proxy: {name} is {counted[name]}, not {value}"
        for name, value in expected.items()
        if counted[name] != value
    ]
    row.problems += wrong
    row.counts = (
        wanted.prompt_tokens,
        counted[ENCODES],
        counted[SKIPPED],
        seen.get("prefill", Counter())["loads"],
        sent,
        seen.get("decode", Counter())["kv.bytes_received"],
    )


def run_cases(stage: Stage, chosen: Sequence[cases.Case]) -> tuple[int, list[str]]:
    """All turns of the chosen cases, printed as they end: how many, and what went wrong."""
    print(report.header(), flush=True)
    turns, bad = 0, []
    for case in chosen:
        history: list[Said] = []
        for place, turn in enumerate(case.turns, 1):
            title = case.title if len(case.turns) == 1 else f"{case.title}: {place}"
            row = play(stage, title, turn, history, streamed=case is STREAMED)
            print(report.line(row), flush=True)
            turns += 1
            bad += [f"{title}: {problem}" for problem in row.problems]
    bad += [f"after the last case: {line}" for line in stage.ledger.finish()]
    return turns, bad


def topology_of(kind: models.Kind, fault: str | None) -> Topology:
    """The kind's topology; with a fault, the engine that will fail has a connector that can."""
    file = ROOT / "demo" / f"serving-{kind}.toml"
    if fault:
        line = 'name = "prefill"\n'
        text = file.read_text()
        file = OUT / f"serving-{kind}-planted.toml"
        file.write_text(text.replace(line, line + 'connector-module = "planted_connector"\n'))
    return Topology.read(file)


def run_kind(
    kind: models.Kind, chosen: Sequence[cases.Case], fault: str | None
) -> tuple[int, list[str]]:
    """Makes the model, starts everything, runs the cases, stops everything."""
    from sluice._core import Client

    features = models.ensure_model(kind, OUT / "models" / kind)
    topology = topology_of(kind, fault)
    if topology.proxy is None:
        raise DeploymentError(f"{topology.file} has no [proxy]")
    plant.clear(OUT / "faults")
    print(
        f"\n{models.TITLES[kind]}: 1 encoder, 1 prefill, 1 decode behind one endpoint", flush=True
    )
    begin = time.monotonic()
    with Deployment(topology, OUT / f"up-serving-{kind}.log") as deployment:
        print(f"up in {time.monotonic() - begin:.0f} s\n", flush=True)
        engines = {name: deployment.engine(name) for name in topology.engines}
        with Client.attach(topology.arena, label="demo", timeout=10.0) as client:
            stage = Stage(
                topology.proxy,
                engines,
                Ledger(client, deployment.processes(), uncounted=PARTS),
                features,
                BLOCK_TOKENS * models.Sizes().kv_token_bytes,
            )
            warm_up(stage)
            if fault:
                plant.arm(OUT / "faults", fault)
            return run_cases(stage, chosen)


def warm_up(stage: Stage) -> None:
    """The first request to an engine is slow. Raises DeploymentError when it is not answered."""
    conversation = [Said(cases.WARM_UP.text, [photograph(n) for n in cases.WARM_UP.images])]
    for server in (stage.engines["colocated"], stage.proxy):
        if error := server.ask(conversation).error:
            raise DeploymentError(f"{server.name} is up but does not answer: {error}")
    stage.ledger.begin()
    stage.proxy_before = proxy_counters.read(stage.proxy)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kind", choices=models.KINDS, help="only this kind of model")
    parser.add_argument("--case", metavar="TITLE", action="append", help="only this one")
    parser.add_argument(
        "--plant",
        metavar="FAULT",
        choices=plant.SERVING_FAULTS,
        help="plant a fault, which must be noticed: the exit code is then 1",
    )
    return parser.parse_args()


def main() -> int:
    options = arguments()
    every = {case.title: case for case in (*cases.CASES, STREAMED)}
    if unknown := set(options.case or ()) - every.keys():
        print(f"no case {unknown.pop()!r}; there are: {', '.join(every)}", file=sys.stderr)
        return 2
    chosen = [every[title] for title in options.case or every]
    kinds = [options.kind] if options.kind else models.KINDS
    turns, bad = 0, []
    try:
        for kind in kinds:
            done, wrong = run_kind(kind, chosen, options.plant)
            turns += done
            bad += wrong
    except DeploymentError as error:
        bad.append(str(error))
    print(f"\n{report.LEGEND}\n")
    for problem in bad:
        print(f"  ! {problem}")
    outcome = "all equal, every count as stated" if not bad else f"{len(bad)} differences"
    print(f"{turns} requests through the endpoint, {len(kinds)} model kind(s): {outcome}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
