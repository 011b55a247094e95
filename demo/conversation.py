"""One turn of the demo: what is sent to which engine, and what must have happened by then.

Order: empty the engines' caches; the encoder gets each image; a fault is planted if one is asked
for; the colocated engine answers, which is the measure; then both consumers answer. Then answers
and counts are compared.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import plant
import report
from cases import Turn
from engines import Answer, Engine, Reference, Said
from evidence import Counts, Ledger, arena_ids
from models import Features
from photographs import Photograph, photograph

if TYPE_CHECKING:
    from sluice._core import Client

ENCODER, TOWER, BLIND, COLOCATED = "encoder", "tower", "blind", "colocated"
CONSUMERS = (TOWER, BLIND)
Transfer = dict[str, Any]


@dataclass
class Stage:
    """The engines of one model kind, the arena between them, and what it has been seen to hold."""

    engines: dict[str, Engine]
    processes: dict[int, str]  # first process of each engine
    client: "Client"
    features: Features
    fault_folder: Path
    faults: list[str] = field(
        default_factory=list
    )  # still to be planted, one in each turn with an image
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.client, self.processes)

    def nbytes(self, names: tuple[str, ...]) -> int:
        """Payload bytes of the features of these photographs."""
        pictures = map(photograph, names)
        return sum(self.features.nbytes(one.width_px, one.height_px) for one in pictures)


def play(
    stage: Stage, title: str, turn: Turn, history: list[Said], count: bool = True
) -> report.TurnReport:
    """Sends `history` and this turn to all engines; appends the turn, answered, to `history`."""
    done = report.TurnReport(title)
    for engine in stage.engines.values():
        if problem := engine.empty_encoder_cache():
            done.problems.append(f"{engine.name}: its encoder cache was not emptied: {problem}")

    conversation = [*history, Said(turn.text, [photograph(name) for name in turn.images])]
    before = arena_ids(stage.client)
    transfer = encode(stage, conversation, done)
    after = arena_ids(stage.client)
    if count and turn.images and stage.faults:
        plant_fault(stage, stage.faults.pop(0), turn)

    wanted = ask(stage, COLOCATED, conversation, {}, done)
    done.answer = wanted.tokens
    for name in CONSUMERS:
        sent = conversation if name == TOWER else referring(conversation, transfer)
        got = ask(stage, name, sent, transfer, done)
        done.equal[name] = bool(wanted.tokens) and got.tokens == wanted.tokens
        if got.tokens and wanted.tokens and not done.equal[name]:
            done.problems.append(f"{name}: {first_difference(wanted, got)}")
    history.append(replace(conversation[-1], answer=wanted.text))

    if count:
        account(stage, turn, before, after, done)
    return done


def encode(stage: Stage, conversation: list[Said], done: report.TurnReport) -> Transfer:
    """Gives the encoder each image; what it said of them, by identifier, for the consumers."""
    transfer: Transfer = {}
    for said in conversation:
        for image in said.images:
            answer = stage.engines[ENCODER].ask([Said("", [image])], tokens=1)
            note_time(done, ENCODER, answer)
            if answer.error:
                done.problems.append(f"{ENCODER}: {answer.error}")
            elif image.uuid not in answer.transfer:
                done.problems.append(f"{ENCODER}: its answer does not name {image.uuid[:12]}")
            transfer |= answer.transfer
    return transfer


def ask(
    stage: Stage, name: str, conversation: list[Said], transfer: Transfer, done: report.TurnReport
) -> Answer:
    answer = stage.engines[name].ask(conversation, transfer=transfer)
    note_time(done, name, answer)
    if answer.error:
        done.problems.append(f"{name}: {answer.error}")
    elif not answer.tokens:
        done.problems.append(f"{name}: an empty answer")
    return answer


def note_time(done: report.TurnReport, name: str, answer: Answer) -> None:
    done.milliseconds[name] = done.milliseconds.get(name, 0.0) + answer.seconds * 1e3


def referring(conversation: list[Said], transfer: Transfer) -> list[Said]:
    """The conversation with every photograph replaced by a reference to its feature."""
    return [
        replace(said, images=[reference(one, transfer) for one in said.images])
        for said in conversation
    ]


def reference(image: Photograph | Reference, transfer: Transfer) -> Reference:
    return Reference(image.uuid, dict(transfer.get(image.uuid, {}).get("metadata") or {}))


def first_difference(wanted: Answer, got: Answer) -> str:
    for place, (one, other) in enumerate(zip(wanted.tokens, got.tokens, strict=False)):
        if one != other:
            return f"token {place} is {other[0]} at {other[1]}, not {one[0]} at {one[1]}"
    return f"{len(got.tokens)} tokens, not {len(wanted.tokens)}"


def plant_fault(stage: Stage, fault: str, turn: Turn) -> None:
    if fault == "flip-byte":
        plant.flip_byte(stage.client, photograph(turn.images[0]).uuid)
    else:
        plant.drop_load(stage.fault_folder)


def caused(stage: Stage, turn: Turn) -> Counts:
    """Every count that this turn must cause, by engine; there must be no others."""
    counts: Counts = {ENCODER: Counter(), **{name: Counter() for name in CONSUMERS}}
    counts[ENCODER].update(
        saves=len(turn.stored),
        save_bytes=stage.nbytes(turn.stored),
        encodes_skipped=turn.encodes_skipped,
    )
    for name in CONSUMERS:
        counts[name].update(
            hits=len(turn.loaded), loads=len(turn.loaded), load_bytes=stage.nbytes(turn.loaded)
        )
    return counts


def account(
    stage: Stage, turn: Turn, before: set[str], after: set[str], done: report.TurnReport
) -> None:
    """Holds what was counted against what must have been; fills the report's counts and items."""
    seen, wrong = stage.ledger.settle(caused(stage, turn))
    done.problems += wrong
    encoder = seen.get(ENCODER, Counter())
    consumers = sum((seen.get(name, Counter()) for name in CONSUMERS), Counter())
    done.counts = {
        "encodes": encoder["saves"] + encoder["save_duplicates"] + encoder["save_divergent"],
        "skipped": encoder["encodes_skipped"],
        "loads": consumers["loads"],
        "local": consumers["local_encodes"],
        "duplicates": encoder["save_duplicates"] + encoder["save_divergent"],
        "bytes_stored": encoder["save_bytes"],
        "bytes_loaded": consumers["load_bytes"],
    }
    for name in turn.loaded:
        done.items.append(account_item(stage, turn, name, before, after, seen, done))


def account_item(
    stage: Stage,
    turn: Turn,
    name: str,
    before: set[str],
    after: set[str],
    seen: Counts,
    done: report.TurnReport,
) -> report.Item:
    """What became of one image's feature, by the arena's list and by the consumers' counts."""
    picture = photograph(name)
    is_there, was_there = picture.uuid in after, picture.uuid in before
    if not is_there:
        done.problems.append(f"{name}: its feature is not in the arena after the encoder's answer")
    elif was_there == (name in turn.stored):
        done.problems.append(f"{name}: its feature was {'' if was_there else 'not '}there before")

    def engines_with(counter: str) -> str:
        every = [seen.get(one, Counter())[counter] >= len(turn.loaded) for one in CONSUMERS]
        return f"{sum(every)} of {len(every)}"

    return report.Item(
        name,
        stage.features.rows(picture.width_px, picture.height_px),
        stage.nbytes((name,)),
        put="MISSING" if not is_there else "was there" if was_there else "stored",
        hits=engines_with("hits"),
        gets=engines_with("loads"),
    )
