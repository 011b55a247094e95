"""What docs/operating/ says is what the programs do."""

import re
from collections.abc import Callable
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
