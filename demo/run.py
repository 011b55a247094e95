"""`make demo`: real engines exchange vision features through the arena, and answer like one engine
that does it all.

For each of two kinds of model, `sluice up` starts an encoder, a prefill+decode engine, another one
that is blind (it cannot encode), and a colocated engine. Photographs are sent as cases.py says.
Exit code 0 only if every answer is equal and every counter is exactly as stated there; 1 otherwise.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import cases
import models
import plant
import report
from conversation import Stage, play
from deployment import ROOT, Deployment, DeploymentError, Topology
from engines import Said

OUT = ROOT / "build" / "demo"
BLIND: dict[models.Kind, str] = {
    "qwen2_5_vl": "has no vision tower",
    "qwen3_vl": "has NaN for every weight of its vision tower",
}


@dataclass
class Verdict:
    turns: int = 0
    bad: list[str] = field(default_factory=list)  # one line for each thing that is wrong


def topology_of(kind: models.Kind, planted: bool) -> Topology:
    """The kind's topology; `planted`: with a connector in the engine with a tower that can fail."""
    file = ROOT / "demo" / f"topology-{kind}.toml"
    if planted:
        line = 'name = "tower"\n'
        text = file.read_text()
        if line not in text:
            raise DeploymentError(f"{file} has no engine called tower")
        file = OUT / f"topology-{kind}-planted.toml"
        file.write_text(text.replace(line, line + 'connector-module = "planted_connector"\n'))
    return Topology.read(file)


def run_cases(stage: Stage, chosen: Sequence[cases.Case], verdict: Verdict) -> None:
    """All turns of the chosen cases, printed as they end."""
    print(report.header(), flush=True)
    answers: dict[str, report.Tokens] = {}
    for case in chosen:
        history: list[Said] = []
        for place, turn in enumerate(case.turns, 1):
            title = case.title if len(case.turns) == 1 else f"{case.title}: {place}"
            done = play(stage, title, turn, history)
            print(report.row(done), flush=True)
            verdict.turns += 1
            verdict.bad += [f"{title}: {problem}" for problem in done.problems]
            images = ", ".join(name for said in case.turns[:place] for name in said.images)
            answers[f"{turn.text}[{images}]"] = done.answer
    verdict.bad += [f"after the last case: {line}" for line in stage.ledger.finish()]
    if len(set(answers.values())) < len(answers):
        verdict.bad.append(
            "different questions had the same answer, so equal answers prove nothing"
        )


def run_kind(
    kind: models.Kind, chosen: Sequence[cases.Case], faults: Sequence[str], verdict: Verdict
) -> None:
    """Makes the model, starts the engines, runs the cases, stops everything."""
    from sluice._core import Client

    features = models.ensure_model(kind, OUT / "models" / kind)
    width = (
        f"{1 + features.deepstack_levels} x {features.width}"
        if features.deepstack_levels
        else f"{features.width}"
    )
    print(
        f"\n{models.TITLES[kind]}: rows of {width} bfloat16 values; the blind engine {BLIND[kind]}",
        flush=True,
    )
    topology = topology_of(kind, bool(faults))
    fault_folder = OUT / "faults"
    plant.clear(fault_folder)

    begin = time.monotonic()
    with Deployment(topology, OUT / f"up-{kind}.log") as deployment:
        print(
            f"{len(topology.engines)} engines and sluiced up in {time.monotonic() - begin:.0f} s\n"
        )
        with Client.attach(topology.arena, label="demo", timeout=10.0) as client:
            stage = Stage(
                topology.engines,
                deployment.processes(),
                client,
                features,
                fault_folder,
                list(faults),
            )
            warm = play(stage, "warm-up", cases.WARM_UP, [], count=False)
            if warm.problems:
                text = "\n  ".join(warm.problems)
                raise DeploymentError(f"the engines are up but do not work:\n  {text}")
            stage.ledger.begin()
            run_cases(stage, chosen, verdict)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kind", choices=models.KINDS, help="only this kind of model")
    parser.add_argument(
        "--case", metavar="TITLE", action="append", help="only this one; may be repeated"
    )
    parser.add_argument(
        "--plant",
        metavar="FAULT",
        action="append",
        choices=plant.FAULTS,
        default=[],
        help="plant a fault, which must be noticed: the exit code is then 1",
    )
    options = parser.parse_args()
    titles = [case.title for case in cases.CASES]
    for title in options.case or []:
        if title not in titles:
            parser.error(f"no case {title!r}; there are: {', '.join(titles)}")
    return options


def main() -> int:
    options = arguments()
    by_title = {case.title: case for case in cases.CASES}
    chosen = [by_title[title] for title in options.case or by_title]
    kinds = [options.kind] if options.kind else models.KINDS
    verdict = Verdict()
    try:
        for kind in kinds:
            run_kind(kind, chosen, options.plant, verdict)
    except DeploymentError as error:
        verdict.bad.append(str(error))
    print(f"\n{report.LEGEND}\n")
    for line in verdict.bad:
        print(f"  ! {line}")
    outcome = (
        "all equal, every count as stated" if not verdict.bad else f"{len(verdict.bad)} differences"
    )
    print(f"{verdict.turns} requests, {len(kinds)} model kind(s): {outcome}")
    return 1 if verdict.bad else 0


if __name__ == "__main__":
    sys.exit(main())
