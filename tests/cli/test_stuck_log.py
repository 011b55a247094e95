"""A daemon whose log nobody reads any more."""

from pathlib import Path

import numpy
import sluice
from arena_daemon import ArenaDaemon
from stuck_pipe import StuckPipe
from waiting import until


def test_a_daemon_serves_while_nobody_reads_its_log(sluiced: Path) -> None:
    pipe = StuckPipe()
    values = numpy.arange(1000, dtype="float32")
    with ArenaDaemon(sluiced, output=pipe) as daemon:
        pipe.fill()
        for n in range(5):  # a daemon says who attached, and who is gone
            with sluice.connect(directory=daemon.directory) as client:
                assert client.put(f"object-{n}", values) == "published"
                assert (client.get(f"object-{n}", as_="numpy") == values).all()
        assert "attached" not in pipe.text(), "the pipe took lines, so that nothing was tested"
        until(lambda: "client 0 attached" in pipe.text(), "what waited is written")
        pipe.fill()
    # Its end did not wait for a reader either: the daemon left with 0.
