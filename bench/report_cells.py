"""The cells of the serving report: what is asked in each, and what was measured.

Every arm gets the same requests, made from the cell alone: an arm's answers can be compared with
another's one by one.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from images import image
from openai_client import Json, Streamed, chat
from real_engines import LARGE_PX, SMALL_PX
from report_arms import Moved

Size = Literal["small", "large"]
SIDE_PX: dict[Size, int] = {"small": SMALL_PX, "large": LARGE_PX}
TEXT_TOKENS: dict[Size, int] = {"small": 60, "large": 800}  # one for each letter
ANSWER_TOKENS = 16
KNOWN_IMAGES = 4  # that repeated requests choose from
KNOWN_FROM = 1_000_000  # their numbers; those of new images stay below
WARM_UP_FROM = 900_000  # and of those that warm an arm up


@dataclass(frozen=True)
class Cell:
    size: Size
    repeated_percent: int
    concurrent: int

    @property
    def title(self) -> str:
        return f"{self.size} images, {self.repeated_percent} % repeated, {self.concurrent} at once"


def cells(concurrency: Sequence[int], repeats: Sequence[int], sizes: Sequence[Size]) -> list[Cell]:
    return [Cell(*one) for one in itertools.product(sizes, repeats, concurrency)]


class Requests:
    """Makes bodies. New images and texts are new in every cell, and the same in every arm."""

    def __init__(self, first: int = 0) -> None:
        """Numbers of new images begin after `first`."""
        self._next = first

    def of(self, cell: Cell, count: int) -> list[Json]:
        """`repeated_percent` of them show an image of known()."""
        bodies = []
        for place in range(count):
            self._next += 1
            repeats = (place + 1) * cell.repeated_percent // 100 > (
                place * cell.repeated_percent // 100
            )
            number = KNOWN_FROM + place % KNOWN_IMAGES if repeats else self._next
            bodies.append(self._body(cell.size, number))
        return bodies

    def known(self, size: Size) -> list[Json]:
        """Shows every image that is repeated once."""
        bodies = []
        for place in range(KNOWN_IMAGES):
            self._next += 1
            bodies.append(self._body(size, KNOWN_FROM + place))
        return bodies

    def _body(self, size: Size, number: int) -> Json:
        letters = TEXT_TOKENS[size]
        text = "".join(chr(97 + (n * 7 + n // 13 + self._next * 5) % 26) for n in range(letters))
        return chat(
            f"{self._next} {text}",
            image(number, SIDE_PX[size]),
            max_tokens=ANSWER_TOKENS,
            ignore_eos=True,
            logprobs=True,
            top_logprobs=1,
            return_tokens_as_token_ids=True,
        )


@dataclass(frozen=True)
class Spread:
    """Of milliseconds; nothing is known of an empty list."""

    mean: float
    median: float
    p99: float  # the nearest rank: with fewer than 100 samples, the largest

    @staticmethod
    def of(seconds: Sequence[float]) -> "Spread":
        if not seconds:
            return Spread(math.nan, math.nan, math.nan)
        ordered = sorted(1e3 * one for one in seconds)
        rank = math.ceil(0.99 * len(ordered))
        return Spread(statistics.mean(ordered), statistics.median(ordered), ordered[rank - 1])


@dataclass
class Measured:
    """One arm in one cell."""

    arm: str
    cell: Cell
    seconds: float = 0.0
    cpu_s: float = 0.0  # of all processes of the arm
    moved: Moved = field(default_factory=Moved)
    answers: list[Streamed] = field(default_factory=list)  # in the order of the requests
    failure: str = ""  # then nothing else means anything
    equal: int | None = None  # answers that are the same as the first arm's, token by token

    @property
    def requests_per_s(self) -> float:
        return len(self.answers) / self.seconds

    @property
    def tokens_per_s(self) -> float:
        return sum(len(one.tokens) for one in self.answers) / self.seconds

    @property
    def ttft(self) -> Spread:
        return Spread.of([one.first_s for one in self.answers])

    @property
    def tpot(self) -> Spread:
        return Spread.of(
            [
                (one.last_s - one.first_s) / (len(one.tokens) - 1)
                for one in self.answers
                if len(one.tokens) > 1
            ]
        )

    @property
    def itl(self) -> Spread:
        return Spread.of([gap for one in self.answers for gap in one.gaps_s])

    @property
    def stages_ms(self) -> dict[str, float]:
        """Means, of an arm whose answers say where their time went."""
        names = dict.fromkeys(name for one in self.answers for name in one.stages_ms)
        return {
            name: statistics.mean(one.stages_ms.get(name, 0.0) for one in self.answers)
            for name in names
        }

    def compare(self, with_: "Measured") -> None:
        """Counts the answers that are the same, token by token."""
        pairs = zip(self.answers, with_.answers, strict=True)
        self.equal = sum(_ids(one) == _ids(other) for one, other in pairs)


def _ids(answer: Streamed) -> list[str]:
    return [token for token, _ in answer.tokens]
