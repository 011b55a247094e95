"""What docs/operating/ says is what the programs do."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from arena_daemon import ArenaDaemon
from programs import Outcome, Sluice
from test_admin_http import Admin

ROOT = Path(__file__).resolve().parents[2]
OPERATING = ROOT / "docs" / "operating"


def test_the_settings_page_is_the_daemons_own_table(run_daemon: Callable[..., Outcome]) -> None:
    """After a change: `sluiced --settings-table` prints what belongs below the page's heading."""
    table = run_daemon("--settings-table").text
    assert table in (OPERATING / "settings.md").read_text()


def test_the_metrics_page_names_every_metric_and_no_other(
    new_daemon: Callable[..., ArenaDaemon],
) -> None:
    text = Admin(new_daemon("64MiB", "--admin-port", "0"))("GET", "/metrics").body.decode()
    served = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    page = (OPERATING / "metrics.md").read_text().split("| metric |")[1]
    named = set(re.findall(r"`(sluice_[a-z_]+)[`{]", page))
    named |= {f"sluice_client_{word}" for word in re.findall(r"`…_([a-z_]+)`", page)}
    assert served == named


def test_the_example_files_are_accepted(
    run_daemon: Callable[..., Outcome], sluice_program: Path
) -> None:
    assert run_daemon("--config", ROOT / "deploy" / "sluiced.toml", "--print-config").code == 0
    sluice = Sluice(sluice_program, "")
    for file in [ROOT / "deploy" / "machine.toml", *(ROOT / "demo").glob("topology-*.toml")]:
        assert sluice("up", file, "--dry-run", "--json").json()["stages"]


def test_the_page_of_commands_names_every_command(sluice_program: Path) -> None:
    script = Sluice(sluice_program, "")("completion", "fish").text
    names = re.search(r"__fish_seen_subcommand_from ([a-z ]+)'", script)
    assert names is not None
    page = (OPERATING / "command-line.md").read_text()
    for name in names.group(1).split():
        assert f"`sluice {name}" in page


def test_the_example_of_a_topology_is_accepted(sluice_program: Path, tmp_path: Path) -> None:
    example = (OPERATING / "topology.md").read_text().split("```toml\n")[1].split("```")[0]
    (tmp_path / "example.toml").write_text(example)
    sluice = Sluice(sluice_program, "")
    stages = sluice("up", tmp_path / "example.toml", "--dry-run", "--json").json()["stages"]
    assert [stage["name"] for stage in stages] == ["sluiced", "encoder", "prefill-decode", "proxy"]


def shell_commands(page: str) -> Iterator[list[str]]:
    """The words of each command in a page's blocks of shell."""
    for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL):
        yield from (
            words
            for line in re.split(r"\n(?=\S)", block.replace("\\\n", " "))
            if (words := shlex.split(line, comments=True))
        )


def transfer_configs(words: list[str]) -> dict[str, object]:
    flags = ("--ec-transfer-config", "--kv-transfer-config")
    return {flag: json.loads(words[words.index(flag) + 1]) for flag in flags if flag in words}


def test_engines_are_started_by_hand_as_sluice_up_starts_them(sluice_program: Path) -> None:
    planned: dict[str, dict[str, object]] = {}
    for file in ("1e1p1d", "1e1pd"):
        topology = ROOT / "deploy" / "topologies" / f"{file}.toml"
        plan = Sluice(sluice_program, "")("up", topology, "--dry-run", "--json").json()
        planned |= {stage["name"]: transfer_configs(stage["command"]) for stage in plan["stages"]}
    shown = [
        transfer_configs(words)
        for words in shell_commands((OPERATING / "launching.md").read_text())
        if "--ec-transfer-config" in words
    ]
    assert len(shown) == 4
    for configs in shown:
        config = configs["--ec-transfer-config"]
        assert isinstance(config, dict)
        assert configs == planned[str(config["engine_id"])]


def test_the_example_of_a_proxys_settings_is_accepted(build_dir: Path, tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "sluice-proxy.toml").read_text()
    for name in ("client.token", "engine.token"):
        (tmp_path / name).write_text("secret")
        (tmp_path / name).chmod(0o600)
    (tmp_path / "proxy.toml").write_text(text.replace("/etc/sluice", str(tmp_path)))
    program = build_dir / "apps" / "sluice-proxy" / "sluice-proxy"
    done = subprocess.run(
        [program, "--config", tmp_path / "proxy.toml", "--print-config", "--json"],
        env={k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")},
        capture_output=True,
        check=True,
    )
    assert len(json.loads(done.stdout)["instances"]) == 3
