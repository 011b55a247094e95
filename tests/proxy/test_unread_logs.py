"""A proxy whose logs nobody reads any more."""

from pathlib import Path

from chat import CHAT, chat
from proxy_process import Proxy
from setups import NewStub
from stuck_pipe import StuckPipe
from waiting import until

REQUESTS = 300  # a line each, of which a pipe of one page holds some ten


def test_a_proxy_answers_while_nobody_reads_its_logs(build_dir: Path, new_stub: NewStub) -> None:
    engine = new_stub("colocated")
    pipe = StuckPipe()
    with Proxy(build_dir, engine.instance, output=pipe) as proxy:
        pipe.fill()
        for _ in range(REQUESTS):
            assert proxy.ask("POST", CHAT, chat()).status == 200
        assert '"status":200' not in pipe.text(), "the pipe took lines, so that nothing was tested"
        written: list[str] = []

        def all_written() -> bool:
            written.append(pipe.text())
            return "".join(written).count(f'"target":"{CHAT}"') == REQUESTS

        assert proxy.metric("^sluice_proxy_log_lines_lost_total") == 0
        until(all_written, "what waited is written")
        pipe.fill()
    # Its end did not wait for a reader either: the proxy left with 0.
