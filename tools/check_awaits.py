"""Coroutines: a `co_await` stands alone, since g++ 12 compiles others wrongly without a warning.

It evaluates the right side of `a && co_await b()` whatever `a` is, and destroys temporaries twice
where the operands of a `co_await` hold a conditional or a braced list (an empty one is harmless).
Prints each such `co_await` as `file:line: reason` and exits 1; prints one line and exits 0 when
there is none.
"""

import re
import sys

from sources import ROOT, cpp_files

NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
LAMBDA = re.compile(
    r"\[[^\[\]]*\]\s*(?:\([^()]*\))?\s*(?:mutable|noexcept)?\s*(?:->\s*[\w:<>]+\s*)?\{"
)
CONDITIONAL = re.compile(r"&&|\|\||\?")


def quiet(text: str) -> str:
    """The same text, of the same length, with comments and literals blanked out."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    return NOISE.sub(blank, text)


def closing(text: str, begin: int) -> int:
    """Where the bracket that opens at `begin` closes."""
    depth = 0
    for place in range(begin, len(text)):
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return len(text)


def before(text: str, place: int) -> str:
    """What of its statement stands before a place."""
    begin = max(text.rfind(mark, 0, place) for mark in ";{}") + 1
    return text[begin:place]


def operand(text: str, place: int) -> str:
    """What stands from a place to the end of its expression, without the bodies of lambdas."""
    out = []
    depth = 0
    while place < len(text) and (depth or text[place] not in ";)]}"):
        if (found := LAMBDA.match(text, place)) is not None:
            place = closing(text, found.end() - 1) + 1
            continue
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[place], 0)
        out.append(text[place])
        place += 1
    return "".join(out)


def problem(text: str, place: int) -> str | None:
    """Why the `co_await` at this place of a quiet text does not stand alone."""
    lead = before(text, place)
    # What decides whether the statement runs at all is not part of the expression.
    head = re.match(r"\s*(?:else\s+)?(?:if|while|for)\s*(?:constexpr\s*)?\(", lead)
    if head is not None and closing(lead, head.end() - 1) < len(lead):
        lead = lead[closing(lead, head.end() - 1) + 1 :]
    if CONDITIONAL.search(lead):
        return "it stands behind a conditional, which does not keep it from running"
    rest = operand(text, place + len("co_await"))
    if CONDITIONAL.search(rest):
        return "its operands hold a conditional: name the value first"
    if re.search(r"\{\s*[^}\s]", rest):
        return "its operands hold a braced list: name the value first"
    return None


def check(text: str) -> list[tuple[int, str]]:
    """Line and reason of each `co_await` that does not stand alone."""
    text = quiet(text)
    found = []
    for match in re.finditer(r"\bco_await\b", text):
        if (reason := problem(text, match.start())) is not None:
            found.append((text.count("\n", 0, match.start()) + 1, reason))
    return found


def main() -> int:
    broken = 0
    awaits = 0
    for path in cpp_files("src", "apps", "tests"):
        text = (ROOT / path).read_text()
        awaits += text.count("co_await")
        for line, reason in check(text):
            print(f"{path}:{line}: {reason}")
            broken += 1
    if broken == 0:
        print(f"{awaits} awaits, each stands alone")
    return int(broken != 0)


if __name__ == "__main__":
    sys.exit(main())
