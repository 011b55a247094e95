"""The checks find what they are there to find."""

import subprocess
import sys
from pathlib import Path

import check_awaits
import check_environment
import check_includes
import processes
import pytest
import readme_numbers
import sources
import test as tiers

ALLOWED = [
    ("src/store/daemon.h", "base/limits.h", '"'),
    ("src/tensor/object_key.cc", "sluice/object_key.h", "<"),
    ("src/base/error.cc", "sluice/error.h", "<"),
    ("src/base/error.cc", "vector", "<"),
    ("apps/sluiced/main.cc", "store/daemon.h", '"'),
]
BROKEN = [
    ("src/base/error.cc", "store/daemon.h", '"', "does not stand to its left"),
    ("src/base/error.cc", "sluice/client.h", "<", "does not stand to its left"),
    ("src/metrics/metrics.cc", "store/daemon.h", '"', "does not stand to its left"),
    ("src/store/slot.cc", "../base/limits.h", '"', "goes up a folder"),
    ("src/store/slot.cc", "no/such/file.h", '"', "names no file"),
    ("src/novelty/a.cc", "base/limits.h", '"', "no place in the order"),
    ("include/sluice/client.h", "base/limits.h", '"', "is private"),
]


@pytest.mark.parametrize(("file", "name", "quote"), ALLOWED)
def test_an_include_to_the_left_is_allowed(file: str, name: str, quote: str) -> None:
    assert check_includes.broken_include(Path(file), name, quote) is None


@pytest.mark.parametrize(("file", "name", "quote", "reason"), BROKEN)
def test_an_include_to_the_right_is_named(file: str, name: str, quote: str, reason: str) -> None:
    assert reason in (check_includes.broken_include(Path(file), name, quote) or "")


def test_a_read_of_the_environment_is_found_and_a_comment_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.cc").write_text(
        '// getenv( is not called here\nint n = 0;\nauto x = getenv("HOME");\n'
    )
    monkeypatch.setattr(check_environment, "ROOT", tmp_path)
    assert check_environment.reads(Path("a.cc"), check_environment.CPP_READ) == [3]


def test_every_python_test_belongs_to_a_tier() -> None:
    covered = [folder for tier in tiers.TIERS for folder in tier.folders]
    tests = [
        path
        for path in sources.tracked()
        if path.suffix == ".py" and (path.name.startswith("test_") or path.stem.endswith("_test"))
    ]
    assert [path for path in tests if not any(path.is_relative_to(one) for one in covered)] == []


def test_a_failed_an_erroneous_and_a_skipped_test_are_counted_as_such(tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    junit.write_text(
        """<testsuites><testsuite>
        <testcase classname="a" name="good"></testcase>
        <testcase classname="a" name="bad"><failure message="no"/></testcase>
        <testcase classname="a" name="worse"><error message="no"/></testcase>
        <testcase classname="a" name="ctest" status="fail"/>
        <testcase classname="a" name="not"><skipped/></testcase>
        </testsuite></testsuites>"""
    )
    count = tiers.count_junit(junit)
    assert (count.passed, count.failed, count.skipped) == (1, 3, 1)
    assert count.names == ["a::bad", "a::worse", "a::ctest"]


def test_the_numbers_go_between_their_comments_and_a_missed_bar_shows() -> None:
    page = f"before\n{readme_numbers.BEGIN}\nold\n{readme_numbers.END}\nafter\n"
    table = readme_numbers.markdown({"get_us_p50": 0.5, "idle_cpu_percent": 2.0})
    new = readme_numbers.replaced(page, table)
    assert new.startswith("before\n")
    assert new.endswith("\nafter\n")
    assert "old" not in new
    assert "| 0.5 us | ≤ 2 |" in new
    assert "| **2 %** | ≤ 0.5 |" in new
    with pytest.raises(ValueError, match="has no"):
        readme_numbers.replaced("nothing here", table)


def test_a_process_left_behind_is_named_and_ended(tmp_path: Path) -> None:
    # In a process of its own: adopting orphans would change the whole test run.
    script = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
import os, processes
processes.adopt_orphans()
command = ["bash", "-c", "setsid sleep 300 & disown"]
done = processes.run(command, Path(sys.argv[2]), 10, dict(os.environ))
assert done.exit_code == 0 and not done.timed_out, done
assert len(done.left_behind) == 1 and "sleep 300" in done.left_behind[0], done
assert not processes.children(os.getpid())
"""
    tools = Path(processes.__file__).parent
    subprocess.run([sys.executable, "-c", script, tools, tmp_path / "log"], check=True, timeout=60)


def test_a_command_that_hangs_is_killed_with_its_group(tmp_path: Path) -> None:
    script = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
import os, processes
processes.adopt_orphans()
done = processes.run(["bash", "-c", "sleep 300 & wait"], Path(sys.argv[2]), 0.3, dict(os.environ))
assert done.timed_out and done.exit_code == -9, done
assert not processes.children(os.getpid())
"""
    tools = Path(processes.__file__).parent
    subprocess.run([sys.executable, "-c", script, tools, tmp_path / "log"], check=True, timeout=60)


@pytest.mark.parametrize(
    "code",
    [
        "co_await f(a);",
        "auto x = co_await f(a, {});",
        "while (a && b) co_await f();",
        "if (a || b) {\n  co_await f();\n}",
        "if (auto x = co_await f(a); !x) co_return x;",
        "co_return co_await spawn(io, [&]() -> awaitable<Thing<A>> { co_return a && b; }, token);",
        "// a && co_await b()\nco_await b();",
        'co_await f("a && {b}");',
    ],
)
def test_an_await_that_stands_alone_is_allowed(code: str) -> None:
    assert check_awaits.check(code) == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("x = a && co_await f();", "behind a conditional"),
        ("if (a && co_await f()) g();", "behind a conditional"),
        ("x = a ? co_await f() : b;", "behind a conditional"),
        ("while (!a || co_await f()) g();", "behind a conditional"),
        ("co_await f(a ? b : c);", "hold a conditional"),
        ("co_await f({.a = 1});", "hold a braced list"),
        ("auto x =\n    co_await f(Thing{1, 2});", "hold a braced list"),
    ],
)
def test_an_await_that_gcc_compiles_wrongly_is_named(code: str, reason: str) -> None:
    ((_, said),) = check_awaits.check("\n" + code)
    assert reason in said
