"""What really happened, from two sources that do not know of the demo: the arena's list, and the
connectors' counters.

Each process of an engine posts its counters, as JSON, on its page in the arena. They only grow, and
a little after the fact: so a reading is awaited, and everything is compared as sums since the first
case. A count that comes too late for its own case is then wrong in the next one, or at the end.
"""

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice._core import Client

# How long things took, and how often a process attached: shown elsewhere, never compared.
NOT_EVENTS = frozenset(
    {
        *("attaches", "load_us", "save_us"),
        *("kv.attaches", "kv.send_us", "kv.save_wait_us", "kv.receive_us", "kv.receive_waits"),
    }
)
SETTLE_S = 3.0
POLL_S = 0.05
QUIET_S = 1.5

Counts = dict[str, Counter[str]]  # engine -> counter -> value


def ancestors(pid: int) -> list[int]:
    """A process and those it descends from, itself first; shorter when one of them is gone."""
    line: list[int] = []
    while pid > 1:
        line.append(pid)
        try:
            # The name in parentheses may hold anything; the parent follows the state after it.
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            break
    return line


def read_counters(client: "Client", engines: dict[int, str]) -> Counts:
    """The counters of every living connector process, summed by engine; those of a KV connector
    are called "kv." and their name.

    `engines`: process number of each engine's first process, and the engine's name.
    """
    out: Counts = {}
    for entry in client.clients():
        if not entry["alive"] or not entry["board"].startswith("{"):
            continue
        board = json.loads(entry["board"])
        if "sluice_vllm" in board:
            counters = board["counters"]
        elif "sluice_vllm_kv" in board:
            counters = {f"kv.{name}": value for name, value in board["counters"].items()}
        else:
            continue
        for pid in ancestors(entry["pid"]):
            if pid in engines:
                out.setdefault(engines[pid], Counter()).update(counters)
    return out


def events(counts: Counts) -> Counts:
    """Without what is not an event, and without zeros."""
    return {
        engine: Counter({k: v for k, v in values.items() if v and k not in NOT_EVENTS})
        for engine, values in counts.items()
    }


def minus(left: Counts, right: Counts) -> Counts:
    out: Counts = {}
    for engine in left.keys() | right.keys():
        difference = Counter(left.get(engine, Counter()))
        difference.subtract(right.get(engine, Counter()))
        out[engine] = Counter({k: v for k, v in difference.items() if v})
    return out


def without(counts: Counts, names: tuple[str, ...]) -> Counts:
    """Copies, without these counters."""
    return {
        engine: Counter({k: v for k, v in values.items() if k not in names})
        for engine, values in counts.items()
    }


def differences(expected: Counts, seen: Counts) -> list[str]:
    """One line for each count that is not as expected, either way."""
    lines = []
    for engine in sorted(expected.keys() | seen.keys()):
        wanted, got = expected.get(engine, Counter()), seen.get(engine, Counter())
        lines += [
            f"{engine}: {name} is {got[name]:,}, not {wanted[name]:,}"
            for name in sorted(wanted.keys() | got.keys())
            if wanted[name] != got[name]
        ]
    return lines


def arena_ids(client: "Client") -> set[str]:
    """The ids of all published objects, parsed from their keys."""
    from sluice._core import ObjectKey

    return {
        ObjectKey.parse(entry["key"]).id
        for entry in client.list()
        if entry["presence"] == "present"
    }


@dataclass
class Ledger:
    """What should have been counted since the start of the first case, and what was.

    `uncounted`: names that are answered and not compared.
    """

    client: "Client"
    engines: dict[int, str]
    uncounted: tuple[str, ...] = ()
    start: Counts = field(default_factory=dict)
    expected: Counts = field(default_factory=dict)
    shown: Counts = field(default_factory=dict)  # what earlier turns had counted

    def begin(self) -> None:
        """From here on everything counts."""
        self.start = self._quiet()

    def finish(self) -> list[str]:
        """Every count that came after its turn was compared."""
        if gone := self.gone():
            return [f"{name}: its processes ended" for name in gone]
        return differences(self.expected, without(minus(self._quiet(), self.start), self.uncounted))

    def _quiet(self) -> Counts:
        """The counters once they have not moved for a second."""
        last = events(read_counters(self.client, self.engines))
        since = time.monotonic()
        while time.monotonic() - since < QUIET_S:
            time.sleep(POLL_S)
            seen = events(read_counters(self.client, self.engines))
            if seen != last:
                last, since = seen, time.monotonic()
        return last

    def seen(self) -> Counts:
        return minus(events(read_counters(self.client, self.engines)), self.start)

    def gone(self) -> list[str]:
        """Engines that had counted something and have no process any more."""
        return sorted(self.start.keys() - read_counters(self.client, self.engines).keys())

    def settle(self, caused: Counts) -> tuple[Counts, list[str]]:
        """Adds what a turn must have caused; answers what it did cause, and every difference of the
        sums.
        """
        for engine, values in caused.items():
            self.expected.setdefault(engine, Counter()).update(values)
        deadline = time.monotonic() + SETTLE_S
        while True:
            now = self.seen()
            wrong = differences(self.expected, without(now, self.uncounted))
            if gone := self.gone():
                return {}, [f"{name}: its processes ended" for name in gone]
            if not wrong or time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
        turn = minus(now, self.shown)
        self.shown = now
        self.expected = without(now, self.uncounted)
        return turn, wrong
