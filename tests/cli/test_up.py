"""`sluice up` with small real programs as engines: order, readiness, logs, signals, deaths."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from programs import Outcome, Sluice
from waiting import until

ENGINE = Path(__file__).with_name("engine.py")
EXAMPLES = Path(__file__).resolve().parents[2] / "deploy" / "topologies"
TIMEOUT_S = 60.0


def free_ports(count: int) -> list[int]:
    holders = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [holder.getsockname()[1] for holder in holders]
    for holder in holders:
        holder.close()
    return ports


def alive(pid: int) -> bool:
    """Runs, or waits to be reaped by somebody else: a zombie counts as dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@dataclass
class Up:
    """One `sluice up` of a topology in a folder of its own."""

    program: Path
    folder: Path
    behaviours: dict[str, str]
    extra: str = ""
    ports: dict[str, int] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.ports = (
            dict(zip(self.behaviours, free_ports(len(self.behaviours)), strict=True)) | self.ports
        )
        lines = [
            self.extra,
            f'log-dir = "{self.logs}"',
            "[arena]",
            'name = "up-test"',
            f'directory = "{self.folder / "arena"}"',
            'size = "16MiB"',
        ]
        for place, (name, behaviour) in enumerate(self.behaviours.items()):
            command = json.dumps([sys.executable, str(ENGINE), behaviour])
            lines += [
                "[[engine]]",
                f'name = "{name}"',
                f'role = "{"encoder" if place == 0 else "prefill_decode"}"',
                'model = "none"',
                f"port = {self.ports[name]}",
                f"command = {command}",
                'args = ["--extra", "word"]',
                'env = { GREETING = "hello" }',
            ]
        self.file.write_text("\n".join(lines))

    @property
    def file(self) -> Path:
        return self.folder / "topology.toml"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def ready_file(self) -> Path:
        return self.folder / "ready.json"

    def log(self, name: str) -> str:
        return (self.logs / f"{name}.log").read_text()

    def start(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [self.program, "up", self.file, "--ready-file", self.ready_file, *words],
            stdin=subprocess.DEVNULL,
            stdout=(self.folder / "out").open("wb"),
            stderr=subprocess.STDOUT,
        )

    def ready(self) -> dict[str, Any]:
        assert self.process is not None
        process = self.process

        def there() -> bool:
            assert process.poll() is None, self.output()
            return self.ready_file.exists()

        until(there, "everything ready", TIMEOUT_S)
        return dict(json.loads(self.ready_file.read_text()))

    def memory(self, name: str) -> list[Path]:
        """Of an untidy engine: its files in shared memory."""
        return [Path("/dev/shm") / file for file in re.findall("memory .*: (.*)", self.log(name))]

    def socket(self, name: str) -> Path:
        return Path(self.log(name).split("socket: ")[1].split()[0])

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(TIMEOUT_S)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.wait()

    def output(self) -> str:
        return (self.folder / "out").read_text()

    def pids(self) -> dict[str, int]:
        """Of what was started, by name."""
        out = {}
        for line in self.output().splitlines():
            name, _, text = line.partition(": ")
            if text.startswith("started, process "):
                out[name] = int(text.split()[2].rstrip(","))
        return out

    def nothing_left(self) -> None:
        for name, pid in self.pids().items():
            assert not alive(pid), f"{name} still runs"
        assert not (self.folder / "arena").exists()
        assert not self.ready_file.exists()


@pytest.fixture
def new_up(sluice_program: Path, tmp_path: Path) -> Iterator[Callable[..., Up]]:
    made: list[Up] = []

    def make(extra: str = "", ports: dict[str, int] | None = None, **behaviours: str) -> Up:
        up = Up(sluice_program, tmp_path / f"up{len(made)}", behaviours, extra, ports or {})
        made.append(up)
        return up

    yield make
    for up in made:
        if up.process is not None and up.process.poll() is None:
            up.process.kill()
            up.process.wait(TIMEOUT_S)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_all_come_up_in_order_and_go_down_in_reverse(
    new_up: Callable[..., Up], number: signal.Signals
) -> None:
    up = new_up(encoder="good", pd="good")
    up.start()
    ready = up.ready()
    assert ready["arena"] == "up-test"
    assert [engine["name"] for engine in ready["engines"]] == ["encoder", "pd"]
    assert [engine["role"] for engine in ready["engines"]] == ["encoder", "prefill_decode"]
    assert up.stop(number) == 0
    lines = up.output().splitlines()

    def place(start: str) -> int:
        return next(i for i, line in enumerate(lines) if line.startswith(start))

    assert place("sluiced: ready") < place("encoder: started") < place("pd: started")
    assert place("pd: stopping") < place("encoder: stopping") < place("sluiced: stopping")
    assert place("encoder: stopped (exit code 0)") < place("sluiced: stopped (exit code 0)")
    up.nothing_left()


def test_an_engine_gets_its_words_and_environment_and_its_log(new_up: Callable[..., Up]) -> None:
    up = new_up(encoder="good")
    up.start("--logs")
    up.ready()
    assert up.stop() == 0
    log = up.log("encoder")
    assert "greeting: hello" in log
    words = next(line for line in log.splitlines() if line.startswith("words:"))
    assert "--extra word" in words
    assert '"ec_role":"ec_producer"' in words
    assert f'"directory":"{up.folder / "arena"}"' in words
    assert log.rstrip().endswith("left")
    assert "encoder | greeting: hello" in up.output()
    assert "sluiced | " in up.output()


def test_a_stage_that_dies_at_start_is_named_with_its_last_words(
    new_up: Callable[..., Up],
) -> None:
    up = new_up(encoder="good", pd="broken")
    up.start()
    assert up.wait() == 1
    out = up.output()
    assert "pd: ended before it was ready, with exit code 3" in out
    assert "the model is not to my taste" in out
    assert str(up.logs / "pd.log") in out
    up.nothing_left()


def test_a_stage_that_does_not_come_up_is_named_with_what_was_awaited(
    new_up: Callable[..., Up],
) -> None:
    up = new_up('ready-timeout = "8s"', encoder="good", pd="deaf")
    up.start()
    assert up.wait() == 1
    out = up.output()
    assert "pd: not ready after 8.0 s" in out
    assert f"http://127.0.0.1:{up.ports['pd']}/health" in out
    assert "never listening" in out
    assert "encoder: not ready" not in out
    up.nothing_left()


@pytest.mark.parametrize("victim", ["pd", "sluiced"])
def test_the_death_of_one_ends_all(new_up: Callable[..., Up], victim: str) -> None:
    up = new_up(encoder="good", pd="good")
    up.start()
    up.ready()
    os.kill(up.pids()[victim], signal.SIGKILL)
    assert up.wait() == 1
    assert f"{victim}: ended while it was needed, with signal 9" in up.output()
    for pid in up.pids().values():
        assert not alive(pid)


def test_one_that_does_not_stop_is_killed_at_its_deadline(new_up: Callable[..., Up]) -> None:
    up = new_up('stop-timeout = "5s"', encoder="stubborn")
    up.start()
    up.ready()
    assert up.stop() == 0
    assert "encoder: killed: did not stop within 5.0 s" in up.output()
    assert "I heard it" in up.log("encoder")
    up.nothing_left()


def test_a_second_signal_does_not_wait(new_up: Callable[..., Up]) -> None:
    up = new_up('stop-timeout = "1h"', encoder="stubborn")
    up.start()
    up.ready()
    assert up.process is not None
    up.process.send_signal(signal.SIGINT)
    until(lambda: "I heard it" in up.log("encoder"), "the engine has been asked")
    assert up.stop(signal.SIGINT) == 0
    assert "encoder: killed on request" in up.output()
    up.nothing_left()


@pytest.mark.parametrize("killed", ["the engine", "its whole group", "nothing"])
def test_what_an_engine_leaves_in_shared_memory_and_of_sockets_is_removed(
    new_up: Callable[..., Up], killed: str
) -> None:
    up = new_up(encoder="untidy")
    up.start()
    up.ready()
    until(lambda: len(up.memory("encoder")) == 2, "both have their memory")
    left = [*up.memory("encoder"), up.socket("encoder")]
    assert len(left) == 3
    assert all(file.exists() for file in left)
    pid = up.pids()["encoder"]
    # All of it was there before the engine was ready, and so has been seen.
    if killed == "the engine":
        os.kill(pid, signal.SIGKILL)
    elif killed == "its whole group":
        os.killpg(pid, signal.SIGKILL)
    code = up.stop() if killed == "nothing" else up.wait()
    assert code == (0 if killed == "nothing" else 1)
    assert [file for file in left if file.exists()] == []
    assert not left[-1].parent.exists()
    assert "encoder: removed 2 files that it left in /dev/shm" in up.output()


def test_sockets_that_a_killed_up_left_are_removed_by_the_next(new_up: Callable[..., Up]) -> None:
    up = new_up(encoder="untidy")
    up.start()
    up.ready()
    until(lambda: len(up.memory("encoder")) == 2, "both have their memory")
    memory, first, engine = up.memory("encoder"), up.socket("encoder"), up.pids()["encoder"]
    assert up.process is not None
    up.process.kill()
    up.wait()
    until(lambda: not alive(engine), "the engine ends with its parent")
    for file in memory:  # what it leaves when it ends by itself is its own affair
        file.unlink()
    assert first.exists()
    up.ready_file.unlink()  # of the one that was killed
    up.start()
    up.ready()  # the engine could not bind there otherwise
    assert up.socket("encoder") == first
    assert up.stop() == 0
    assert not first.parent.exists()


def test_two_with_one_log_folder_are_refused(new_up: Callable[..., Up]) -> None:
    first = new_up(encoder="good")
    first.start()
    first.ready()
    second = new_up(encoder="good")
    second.start("--log-dir", str(first.logs))
    assert second.wait() == 75
    assert "uses the log folder" in second.output()
    assert first.stop() == 0


def test_children_of_an_engine_go_with_it(new_up: Callable[..., Up]) -> None:
    up = new_up(encoder="parent")
    up.start()
    up.ready()
    child = int(up.log("encoder").split("child: ")[1].split()[0])
    assert alive(child)
    assert up.stop() == 0
    until(lambda: not alive(child), "the engine's child is gone")
    up.nothing_left()


def test_when_up_itself_is_killed_everything_ends(new_up: Callable[..., Up]) -> None:
    up = new_up(encoder="good", pd="good")
    up.start()
    up.ready()
    pids = up.pids()
    assert up.process is not None
    up.process.kill()
    up.wait()
    for name, pid in pids.items():
        until(lambda pid=pid: not alive(pid), f"{name} ends with its parent")  # type: ignore[misc]


def test_a_taken_port_is_exit_75_before_anything_starts(new_up: Callable[..., Up]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        up = new_up(encoder="good", ports={"encoder": taken.getsockname()[1]})
        up.start()
        assert up.wait() == 75
    assert "is taken" in up.output()
    assert up.pids() == {}


def test_a_busy_arena_is_exit_75(new_up: Callable[..., Up]) -> None:
    first = new_up(encoder="good")
    first.start()
    first.ready()
    second = new_up(encoder="good")
    second.file.write_text(
        second.file.read_text().replace(str(second.folder / "arena"), str(first.folder / "arena"))
    )
    second.start()
    assert second.wait() == 75
    assert "sluiced: ended before it was ready, with exit code 75" in second.output()
    assert first.stop() == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (('role = "encoder"', 'role = "encodr"'), "did you mean 'encoder'"),
        (('size = "16MiB"', 'sise = "16MiB"'), "did you mean 'size'"),
        (('size = "16MiB"', 'size = "12Q"'), "is not a size"),
        (("[arena]", "[arenas]"), "did you mean 'arena'"),
    ],
)
def test_a_wrong_topology_is_exit_78(
    new_up: Callable[..., Up], change: tuple[str, str], reason: str
) -> None:
    up = new_up(encoder="good")
    up.file.write_text(up.file.read_text().replace(*change))
    up.start()
    assert up.wait() == 78
    assert reason in up.output()
    assert up.pids() == {}


def test_json_events_tell_the_same_story(new_up: Callable[..., Up]) -> None:
    up = new_up(encoder="good")
    up.start("--json")
    up.ready()
    assert up.stop() == 0
    events = [json.loads(line) for line in up.output().splitlines()]
    assert [e["name"] for e in events if e["event"] == "ready"] == ["sluiced", "encoder"]
    assert [e["name"] for e in events if e["event"] == "stopped"] == ["encoder", "sluiced"]


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.toml")), ids=lambda file: file.stem)
def test_every_example_is_understood_and_tells_the_proxy_of_its_engines(
    sluice_program: Path, file: Path
) -> None:
    done = Sluice(sluice_program, "")("up", str(file), "--dry-run", "--json")
    stages = {stage["name"]: stage["command"] for stage in done.json()["stages"]}
    told = [word for word in stages["proxy"] if "=http://127.0.0.1:" in word]
    assert len(told) == len(stages) - 2  # all but sluiced and the proxy
    assert "--engine-token-file" in stages["proxy"]


def test_a_dry_run_shows_the_commands_and_starts_nothing(
    sluice_program: Path, tmp_path: Path
) -> None:
    sluice = Sluice(sluice_program, "")
    done: Outcome = sluice(
        *("up", "--model", "/models/m", "--port", "9000", "--size", "64M", "--dry-run", "--json"),
        "--engine-arg=--dtype=bfloat16",
    )
    stages = {stage["name"]: stage["command"] for stage in done.json()["stages"]}
    assert list(stages) == ["sluiced", "encoder", "prefill-decode"]
    assert stages["sluiced"][1:3] == ["--arena", "default"]
    assert "--directory" in stages["sluiced"]
    assert stages["sluiced"][-2:] == ["--size", "64M"]
    assert "--dtype=bfloat16" in stages["encoder"]
    assert "9001" in stages["prefill-decode"]
    text = sluice("up", "--model", "/m", "--dry-run").text
    assert "vllm.entrypoints.openai.api_server" in text
