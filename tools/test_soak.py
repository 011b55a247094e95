"""docs/soak.md says of every part what its last run said, or that there was none."""

import soak
from sources import ROOT

FIRST, SECOND = soak.PARTS[0], soak.PARTS[1]


def line_of(page: str, part: soak.Part) -> str:
    return soak.rows_of(page)[part.name]


def test_a_part_that_is_not_run_keeps_its_line_and_one_that_never_ran_says_so() -> None:
    empty = soak.page([], {})
    for part in soak.PARTS:
        assert line_of(empty, part) == f"| {part.name} | {part.what} | not run | | | |"
    once = soak.page([soak.Outcome(FIRST, True, 3.4, ["5 of them"])], soak.rows_of(empty))
    assert "| passed |" in line_of(once, FIRST)
    assert "| 3 | 5 of them |" in line_of(once, FIRST)
    assert "not run" in line_of(once, SECOND)
    twice = soak.page([soak.Outcome(SECOND, False, 1.0, [])], soak.rows_of(once))
    assert line_of(twice, FIRST) == line_of(once, FIRST)
    assert "| **failed** |" in line_of(twice, SECOND)


def test_a_part_that_runs_again_replaces_its_line() -> None:
    page = soak.page([soak.Outcome(FIRST, False, 1.0, [])], {})
    page = soak.page([soak.Outcome(FIRST, True, 1.0, [])], soak.rows_of(page))
    assert "| passed |" in line_of(page, FIRST)
    assert page.count(f"| {FIRST.name} |") == 1


def test_every_part_is_either_a_program_or_python_tests_that_exist() -> None:
    for part in soak.PARTS:
        assert bool(part.program) != bool(part.python), part.name
        for path in part.python:
            assert (ROOT / path.removeprefix("--ignore=")).exists(), path
