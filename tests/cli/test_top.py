"""`sluice top` with a real proxy and small real programs as engines: what it shows, and what it
says when a part is away.
"""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from arena_daemon import ArenaDaemon
from programs import TIMEOUT_S, Sluice
from terminal import terminal_output
from test_up import free_ports
from waiting import until

ENGINE = Path(__file__).with_name("engine.py")
TOKEN = "secret-of-a-test"
BODY = {"model": "m", "messages": [{"role": "user", "content": "Is it so?"}]}


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@dataclass
class Serving:
    """One engine that does everything, and a proxy before it. Owns both processes."""

    program: Path  # sluice-proxy
    stack: ExitStack
    behaviour: str = "good"

    def __post_init__(self) -> None:
        self.proxy_port, self.engine_port = free_ports(2)
        self.engine = self._start(
            [sys.executable, str(ENGINE), self.behaviour, "--port", str(self.engine_port)]
        )
        self.proxy = self._start(
            [
                *(str(self.program), "--port", str(self.proxy_port), "--arena", "off"),
                *("--instance", f"colocated={self.engine_address}", "--health-interval", "50ms"),
            ],
            SLUICE_TOKEN=TOKEN,
        )
        until(lambda: answers(f"{self.address}/readyz?all"), "the proxy is ready", TIMEOUT_S)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.proxy_port}"

    @property
    def engine_address(self) -> str:
        return f"http://127.0.0.1:{self.engine_port}"

    def ask(self, times: int) -> None:
        for _ in range(times):
            request = urllib.request.Request(
                f"{self.address}/v1/chat/completions",
                json.dumps(BODY).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                assert answer.status == 200

    def _start(self, words: list[str], **environment: str) -> subprocess.Popen[bytes]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
        process = subprocess.Popen(
            words,
            env={**kept, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.stack.callback(process.wait, TIMEOUT_S)
        self.stack.callback(process.kill)
        return process


NewServing = Callable[..., Serving]


@pytest.fixture
def new_serving(build_dir: Path) -> Iterator[NewServing]:
    program = build_dir / "apps" / "sluice-proxy" / "sluice-proxy"
    assert program.exists(), f"{program} is not built"
    with ExitStack() as stack:
        yield lambda behaviour="good": Serving(program, stack, behaviour)


def top(sluice: Sluice, *words: object, token: str = TOKEN, code: int | None = 0) -> Any:
    """The serving path of one view, as JSON."""
    environment = {"SLUICE_TOKEN": token} if token else {}
    done = sluice("top", *words, "--once", "--json", code=code, **environment)
    return done.json()["serving"]


def test_totals_of_stage_engine_and_endpoint_agree_with_what_was_asked(
    sluice: Sluice, new_serving: NewServing
) -> None:
    serving = new_serving()
    serving.ask(3)
    shown = top(sluice, "--proxy", serving.address)
    assert shown["endpoint"]["ready"] is True
    assert shown["endpoint"]["requests"]["total"] == 3
    assert shown["endpoint"]["answered_2xx"] == 3
    assert shown["seconds"] is None
    [stage] = shown["stages"]
    assert stage["role"] == "colocated"
    assert (stage["instances"], stage["healthy"]) == (1, 1)
    assert stage["requests"] == {"total": 3, "per_s": None}
    assert stage["service_s"]["p99"] > 0
    assert stage["errors"] == 0
    [engine] = stage["engines"]
    assert engine["address"] == serving.engine_address
    assert engine["healthy"] is True
    assert engine["trouble"] is None
    assert engine["requests"]["total"] == 3
    assert engine["waiting"] == 2
    assert engine["service_s"]["p50"] == pytest.approx(0.375)  # between its two buckets
    assert shown["features"]["hits"]["total"] == 9
    assert shown["handoffs"]["open"] == 0


def test_a_second_view_has_rates(sluice: Sluice, new_serving: NewServing) -> None:
    serving = new_serving()
    done = sluice(
        *("top", "--proxy", serving.address, "--json", "--count", "2", "--interval", "10ms"),
        SLUICE_TOKEN=TOKEN,
    )
    first, second = (json.loads(line)["serving"] for line in done.lines)
    assert first["endpoint"]["requests"]["per_s"] is None
    assert second["endpoint"]["requests"]["per_s"] == 0
    assert second["seconds"] > 0


def test_without_the_token_only_the_list_of_engines_is_missing(
    sluice: Sluice, new_serving: NewServing
) -> None:
    serving = new_serving()
    serving.ask(1)
    shown = top(sluice, "--proxy", serving.address, token="")
    assert "token" in shown["endpoint"]["listing_trouble"]
    assert shown["endpoint"]["trouble"] is None
    [stage] = shown["stages"]
    assert stage["requests"]["total"] == 1
    assert stage["engines"] == []


def test_the_token_may_stand_in_a_file_and_the_address_in_the_environment(
    sluice: Sluice, new_serving: NewServing, tmp_path: Path
) -> None:
    serving = new_serving()
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    done = sluice("top", "--once", "--json", "--token-file", file, SLUICE_PROXY=serving.address)
    assert done.json()["serving"]["stages"][0]["engines"][0]["healthy"] is True
    file.chmod(0o644)
    refused = sluice("top", "--once", "--token-file", file, code=78, SLUICE_PROXY=serving.address)
    assert "chmod 600" in refused.err
    assert TOKEN not in refused.err


def topology(serving: Serving, folder: Path, arena: str) -> Path:
    (folder / "logs").mkdir()
    token = folder / "logs" / "engine.token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    file = folder / "topology.toml"
    file.write_text(
        f'log-dir = "{folder / "logs"}"\n'
        f'[arena]\nname = "t"\ndirectory = "{arena}"\n'
        f"[proxy]\nport = {serving.proxy_port}\n"
        f'[[engine]]\nname = "the-one"\nrole = "colocated"\nmodel = "m"\n'
        f"port = {serving.engine_port}\n"
    )
    return file


def test_a_topology_file_says_where_everything_is(
    sluice_program: Path, daemon: ArenaDaemon, new_serving: NewServing, tmp_path: Path
) -> None:
    serving = new_serving()
    file = topology(serving, tmp_path, daemon.directory)
    done = Sluice(sluice_program, "/nowhere")("top", file, "--once", "--json").json()
    assert done["arena"]["daemon_alive"] is True
    [engine] = done["serving"]["stages"][0]["engines"]
    assert engine["name"] == "the-one"
    assert engine["healthy"] is True


def test_a_proxy_that_is_away_is_named_and_its_engines_are_still_shown(
    sluice_program: Path, daemon: ArenaDaemon, new_serving: NewServing, tmp_path: Path
) -> None:
    serving = new_serving()
    serving.ask(2)
    file = topology(serving, tmp_path, daemon.directory)
    serving.proxy.kill()
    serving.proxy.wait(TIMEOUT_S)
    shown = top(Sluice(sluice_program, "/nowhere"), file)
    assert shown["endpoint"]["trouble"]
    [engine] = shown["stages"][0]["engines"]
    assert engine["requests"]["total"] == 2
    assert engine["healthy"] is None


def test_an_engine_that_is_away_is_named_in_its_place(
    sluice: Sluice, new_serving: NewServing
) -> None:
    serving = new_serving()
    serving.engine.kill()
    serving.engine.wait(TIMEOUT_S)

    def out_of_use() -> bool:
        [stage] = top(sluice, "--proxy", serving.address)["stages"]
        return stage["engines"][0]["healthy"] is False

    until(out_of_use, "the proxy has noticed", TIMEOUT_S)
    text = sluice("top", "--proxy", serving.address, "--once", SLUICE_TOKEN=TOKEN).text
    assert "0 of 1 used" in text
    assert "out of use" in text
    assert re.search(rf"colocated {serving.engine_address}  \S", text), text


def test_an_engine_that_stands_still_holds_the_view_up_for_a_second_at_most(
    sluice: Sluice, new_serving: NewServing
) -> None:
    serving = new_serving()
    serving.engine.send_signal(signal.SIGSTOP)
    try:
        shown = top(sluice, "--proxy", serving.address, "--timeout", "1s")
    finally:
        serving.engine.send_signal(signal.SIGCONT)
    [engine] = shown["stages"][0]["engines"]
    assert engine["trouble"]
    assert shown["endpoint"]["ready"] in {True, False}


def test_nonsense_in_the_place_of_metrics_is_said_and_not_shown(
    sluice: Sluice, new_serving: NewServing
) -> None:
    serving = new_serving("nonsense")
    [stage] = top(sluice, "--proxy", serving.address)["stages"]
    assert "line 1" in stage["engines"][0]["trouble"]


def test_an_arena_that_is_away_does_not_hide_the_serving_path(
    sluice_program: Path, new_serving: NewServing, tmp_path: Path
) -> None:
    serving = new_serving()
    nowhere = Sluice(sluice_program, str(tmp_path / "nowhere"))
    done = nowhere("top", "--proxy", serving.address, "--once", "--json").json()
    assert done["arena"] is None
    assert "no daemon serves" in done["arena_trouble"]
    assert done["serving"]["endpoint"]["ready"] is True
    assert done["serving"]["handoffs"]["open"] is None


def test_where_nothing_is_at_all_a_script_is_told(sluice_program: Path, tmp_path: Path) -> None:
    nowhere = Sluice(sluice_program, str(tmp_path / "nowhere"))
    [port] = free_ports(1)
    nowhere("top", "--proxy", f"http://127.0.0.1:{port}", "--once", code=1)


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["--proxy", "127.0.0.1:8080"], 78, "http://HOST:PORT"),
        (["--proxy", "https://h:1"], 78, "http://HOST:PORT"),
        (["/nowhere/at/all.toml"], 78, "cannot read"),
        (["--once", "--count", "2"], 2, "exclude each other"),
        (["--token-file", "/nowhere/token"], 78, "/nowhere/token"),
    ],
)
def test_a_mistake_is_named(sluice: Sluice, words: list[str], code: int, reason: str) -> None:
    assert reason in sluice("top", *words, code=code).err


def on_terminal(command: list[str], columns: int, token: str) -> list[str]:
    """The lines of one view on a terminal of this width, without colour."""
    out = terminal_output(command, columns, NO_COLOR="1", SLUICE_TOKEN=token)
    return out.decode().replace("\x1b[H\x1b[2J", "").splitlines()


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_a_terminal_gets_what_fits_it(
    sluice: Sluice, new_serving: NewServing, columns: int
) -> None:
    serving = new_serving()
    command = [
        *(str(sluice.program), "--directory", sluice.directory, "top"),
        *("--proxy", serving.address, "--once"),
    ]
    lines = on_terminal(command, columns, TOKEN)
    assert max(map(len, lines)) <= columns, lines
    table = next(line for line in lines if line.startswith("STAGE"))
    assert "SERVICE" in table
    assert ("PREEMPTED" in table) == (columns == 160)
