"""What systemd is told: ready, alive, stopping."""

import os
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path


def test_a_proxy_tells_that_it_answers_and_that_it_stops(build_dir: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tmp_path / "notify"))
        notify.settimeout(30)
        process = subprocess.Popen(
            [
                build_dir / "apps" / "sluice-proxy" / "sluice-proxy",
                *("--port", "0", "--arena", "off"),
            ],
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ready = notify.recv(4096).decode()
        assert ready.startswith("READY=1\n")
        port = int(ready.rsplit(" ", 1)[1])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=30) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        assert notify.recv(4096).startswith(b"STOPPING=1")
        assert process.wait(30) == 0


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
