"""A `mooncake_master` on free ports of the loopback, for what stands beside Mooncake Store.

From beside this interpreter, in an environment of its own. running.py says how it ends and fails.
"""

import contextlib
import os
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from running import Running, free_ports

START_S = 60.0
STOP_S = 10.0


@dataclass(frozen=True)
class Master:
    """A running master."""

    metadata: str  # URL of its metadata server
    address: str  # host:port of its RPC server


def own_environment(folder: Path) -> dict[str, str]:
    """What a peer needs, and nothing of the environment that it is started in."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "TMPDIR": str(folder)}


@contextlib.contextmanager
def master(folder: Path) -> Iterator[Master]:
    """Inside, both of its servers answer. It works in `folder`, and its log is there."""
    rpc, metrics, http = free_ports(3)
    url = f"http://127.0.0.1:{http}/metadata"
    with Running(
        [
            Path(sys.executable).with_name("mooncake_master"),
            "--enable_http_metadata_server=true",
            "--http_metadata_server_host=127.0.0.1",
            f"--http_metadata_server_port={http}",
            "--rpc_address=127.0.0.1",
            f"--rpc_port={rpc}",
            "--metrics_host=127.0.0.1",
            f"--metrics_port={metrics}",
        ],
        folder / "mooncake_master.log",
        lambda: _accepts(rpc) and _answers(url),
        start_s=START_S,
        stop_s=STOP_S,
        environment=own_environment(folder),
        folder=folder,
    ):
        yield Master(url, f"127.0.0.1:{rpc}")


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _answers(url: str) -> bool:
    """A key that is not there is an answer too."""
    try:
        urllib.request.urlopen(f"{url}?key=none", timeout=1.0).close()
    except urllib.error.HTTPError as error:
        return error.code == 404
    except OSError:
        return False
    return True
