"""What systemd is told: ready, alive, stopping."""

import os
import signal
import socket
import subprocess
from pathlib import Path


def test_ready_watchdog_and_stopping_are_told(sluiced: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tmp_path / "notify"))
        notify.settimeout(30)
        process = subprocess.Popen(
            [
                *(sluiced, "--directory", tmp_path / "arena", "--size", "16MiB"),
                *("--admin-port", "off"),
            ],
            env={
                **os.environ,
                "NOTIFY_SOCKET": str(tmp_path / "notify"),
                "WATCHDOG_USEC": "300000",
            },
            stderr=subprocess.DEVNULL,
        )
        told: list[bytes] = []
        while sum(b"WATCHDOG=1" in one for one in told) < 3 or b"READY=1" not in b"".join(told):
            told.append(notify.recv(4096))
        process.send_signal(signal.SIGTERM)
        while b"STOPPING=1" not in told[-1]:
            told.append(notify.recv(4096))
        assert process.wait(30) == 0
