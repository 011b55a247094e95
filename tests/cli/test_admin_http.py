"""The daemon's HTTP interface: what each address answers, to good requests and to bad ones."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest
import sluice
from arena_daemon import ArenaDaemon
from waiting import until

TOKEN = "a-token-of-some-length"
BODY_MAX = 1 << 20
LATE = "sluice_late_requests_total"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Admin:
    """One request per connection, so that a closed one cannot hide in the next."""

    def __init__(self, daemon: ArenaDaemon) -> None:
        self.port = int((Path(daemon.directory) / "admin.port").read_text())

    def __call__(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        token: str | None = TOKEN,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        connection.request(method, path, body=body, headers=sent)
        reply = connection.getresponse()
        answer = Answer(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        connection.close()
        return answer

    def raw(self, request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            out = b""
            while block := connection.recv(65536):
                out += block
            return out


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(TOKEN + "\n")
    return file


@pytest.fixture
def served(new_daemon: Callable[..., ArenaDaemon], token_file: Path) -> ArenaDaemon:
    options = ("--admin-port", "0", "--token-file", token_file, "--body-max", BODY_MAX)
    return new_daemon("64MiB", *map(str, options))


@pytest.fixture
def admin(served: ArenaDaemon) -> Admin:
    return Admin(served)


def test_probes_and_metrics(admin: Admin) -> None:
    assert admin("GET", "/livez", token=None).json() == {"live": True}
    ready = admin("GET", "/readyz", token=None)
    assert ready.status == 200
    assert ready.json()["ready"] is True
    metrics = admin("GET", "/metrics", token=None)
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert b"sluice_arena_bytes 67108864" in metrics.body
    stats = admin("GET", "/v1/stats", token=None).json()
    assert stats["arena"]["arena_bytes"] == 64 << 20
    assert stats["health"]["ready"] is True
    assert admin("HEAD", "/livez", token=None).body == b""


def test_a_request_that_is_seen_after_its_deadline_is_counted(
    served: ArenaDaemon, admin: Admin
) -> None:
    def late() -> int:
        metrics = admin("GET", "/metrics", token=None).body.decode()
        found = re.search(rf"^{LATE} (\d+)$", metrics, re.MULTILINE)
        assert found
        return int(found[1])

    with sluice.connect(directory=served.directory) as client:
        client.put("before", numpy.zeros(10))
        assert late() == 0
        served.pause()
        with pytest.raises(sluice.TimedOut, match="did not answer before the deadline"):
            client.remove("before", timeout=0.05)
        served.resume()
        until(lambda: late() == 1, "the late request is counted")


def test_an_object_goes_in_is_listed_and_comes_out(admin: Admin) -> None:
    body = os.urandom(100_000)
    put = admin("PUT", "/v1/objects/cat%2Fone%20two", body)
    assert put.status == 201, put
    assert put.json()["outcome"] == "published"
    assert admin("PUT", "/v1/objects/cat%2Fone%20two", body).json()["outcome"] == "duplicate"
    got = admin("GET", "/v1/objects/cat%2Fone%20two")
    assert got.body == body
    assert got.headers["x-sluice-dtype"] == "uint8"
    assert json.loads(got.headers["x-sluice-shape"]) == [100_000]
    whole = admin("GET", "/v1/objects/cat%2Fone%20two?raw=true").body
    assert whole[:4] == b"NOOM"
    assert body in whole
    listed = admin("GET", "/v1/objects?limit=10", token=None).json()
    assert [one["presence"] for one in listed["objects"]] == ["present"]
    assert listed["more"] is False
    key = listed["objects"][0]["key"]
    assert key.endswith("@id:cat%2Fone%20two")
    assert admin("DELETE", "/v1/objects/cat%2Fone%20two").json()["removed"] is True
    assert admin("GET", "/v1/objects/cat%2Fone%20two").status == 404
    assert admin("DELETE", "/v1/objects/cat%2Fone%20two").status == 404


def test_a_full_key_is_as_good_as_a_plain_name(admin: Admin) -> None:
    admin("PUT", "/v1/objects/plain", b"x")
    key = admin("GET", "/v1/objects").json()["objects"][0]["key"]
    escaped = key.replace("%", "%25").replace("@", "%40").replace(":", "%3A")
    assert admin("GET", f"/v1/objects/{escaped}").body == b"x"


def test_the_list_is_bounded_and_says_so(admin: Admin) -> None:
    for i in range(5):
        admin("PUT", f"/v1/objects/n{i}", b"x")
    two = admin("GET", "/v1/objects?limit=2").json()
    assert len(two["objects"]) == 2
    assert two["more"] is True
    key = two["objects"][0]["key"]
    prefix = key[: key.index("@id:") + 4]
    assert len(admin("GET", f"/v1/objects?prefix={prefix}n3").json()["objects"]) == 1


REFUSALS: list[tuple[str, str, bytes | None, str | None, int]] = [
    ("GET", "/v1/objects/k", None, None, 401),
    ("GET", "/v1/objects/k", None, "wrong", 401),
    ("GET", "/v1/objects/k", None, TOKEN + "x", 401),
    ("GET", "/v1/objects/k", None, TOKEN[:-1], 401),
    ("PUT", "/v1/objects/k", b"x", "wrong", 401),
    ("DELETE", "/v1/objects/k", None, "wrong", 401),
    ("PUT", "/v1/objects/k", b"", TOKEN, 400),
    ("PUT", "/v1/objects/k", b"x" * (BODY_MAX + 1), TOKEN, 413),
    ("PUT", "/v1/objects/sluice1%40broken", b"x", TOKEN, 400),
    ("PUT", "/v1/objects/%zz", b"x", TOKEN, 400),
    ("PUT", "/v1/objects/" + "k" * 2000, b"x", TOKEN, 400),
    ("GET", "/v1/objects/missing", None, TOKEN, 404),
    ("GET", "/v1/objects/k?unknown=1", None, TOKEN, 400),
    ("GET", "/v1/objects?limit=-1", None, None, 400),
    ("GET", "/v1/objects?limit=1&limit=2", None, None, 400),
    ("GET", "/v1/objects?lmit=1", None, None, 400),
    ("POST", "/v1/objects/k", b"x", TOKEN, 405),
    ("POST", "/livez", b"", None, 405),
    ("GET", "/", None, None, 404),
    ("GET", "/v2/objects", None, None, 404),
]


@pytest.mark.parametrize(("method", "path", "body", "token", "status"), REFUSALS)
def test_what_is_refused_gets_its_status_and_stores_nothing(
    admin: Admin, method: str, path: str, body: bytes | None, token: str | None, status: int
) -> None:
    answer = admin(method, path, body, token)
    assert answer.status == status, answer
    refused = answer.json()
    assert refused["error"]
    assert refused["message"]
    assert TOKEN.encode() not in answer.body
    assert admin("GET", "/v1/objects", token=None).json()["objects"] == []
    assert admin("PUT", "/v1/objects/good", b"x").status == 201


def test_an_oversize_body_is_refused_before_it_is_sent(admin: Admin) -> None:
    head = (
        f"PUT /v1/objects/k HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Length: {BODY_MAX * 1000}\r\nExpect: 100-continue\r\n\r\n"
    )
    answer = admin.raw(head.encode())
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"100 Continue" not in answer


def test_a_chunked_body_counts_as_much_as_any_other(admin: Admin) -> None:
    def chunked(body: bytes) -> bytes:
        head = (
            "PUT /v1/objects/k HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Authorization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        part = f"{len(body):x}\r\n".encode() + body + b"\r\n" if body else b""
        return head.encode() + part + b"0\r\n\r\n"

    assert admin.raw(chunked(b"")).startswith(b"HTTP/1.1 400")
    assert admin.raw(chunked(b"x" * (BODY_MAX + 1))).startswith(b"HTTP/1.1 413")
    assert admin.raw(chunked(b"abc")).startswith(b"HTTP/1.1 201")
    assert admin("GET", "/v1/objects/k").body == b"abc"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"garbage\r\n\r\n", b"400"),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", b"431"),
        (b"GET http://elsewhere/livez HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"GET /livez HTTP/1.1\r\nHost: attacker.example\r\n\r\n", b"403"),
        (b"PUT /v1/objects/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n", b"400"),
    ],
)
def test_malformed_requests_get_an_answer_and_the_next_one_is_served(
    admin: Admin, request_bytes: bytes, status: bytes
) -> None:
    assert admin.raw(request_bytes).split(b" ")[1] == status
    assert admin("GET", "/livez").status == 200


def test_a_client_that_leaves_in_the_middle_of_a_body_leaves_nothing(admin: Admin) -> None:
    head = (
        "PUT /v1/objects/half HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {TOKEN}\r\nContent-Length: 1000\r\n\r\nonly this"
    )
    admin.raw(head.encode())
    assert admin("GET", "/v1/objects").json()["objects"] == []


def test_the_token_is_never_in_the_log(admin: Admin, served: ArenaDaemon) -> None:
    admin("GET", "/v1/objects/k", token=TOKEN + "-nearly")
    admin("PUT", "/v1/objects/k", b"x")
    assert TOKEN not in served.log()


def test_the_port_file_is_gone_when_the_daemon_is(served: ArenaDaemon) -> None:
    assert (Path(served.directory) / "admin.port").exists()
    served.stop()
    assert not Path(served.directory).exists()


def test_without_a_token_bytes_are_out_of_reach(new_daemon: Callable[..., ArenaDaemon]) -> None:
    admin = Admin(new_daemon("64MiB", "--admin-port", "0"))
    for method, body in [("GET", None), ("PUT", b"x"), ("DELETE", None)]:
        for token in (None, "", "anything"):
            answer = admin(method, "/v1/objects/k", body, token)
            assert answer.status == 403
            assert "--token-file" in answer.json()["message"]
    assert admin("GET", "/v1/objects", token=None).status == 200


def test_the_ready_probe_turns_when_the_daemon_drains(
    served: ArenaDaemon, admin: Admin, sluiced: Path
) -> None:
    """A writer that holds a reservation keeps the drain going until it is done."""
    import sluice

    with sluice.connect(directory=served.directory, timeout=10) as client:
        writer = client.reserve("slow", ("uint8", (10,)))
        assert writer is not None
        os.kill(served.pid, signal.SIGTERM)
        until(lambda: admin("GET", "/readyz").status == 503, "not ready while draining")
        assert admin("GET", "/livez").status == 200
        refused = admin("PUT", "/v1/objects/new", b"x")
        assert refused.status in {503, 504}, refused
        writer.publish()
    begin = time.monotonic()
    served.stop()
    assert time.monotonic() - begin < 8


def test_a_second_signal_stops_at_once(served: ArenaDaemon, sluiced: Path) -> None:
    import sluice

    with sluice.connect(directory=served.directory, timeout=10) as client:
        writer = client.reserve("slow", ("uint8", (10,)))
        assert writer is not None
        admin = Admin(served)
        os.kill(served.pid, signal.SIGTERM)
        until(lambda: admin("GET", "/readyz").status == 503, "draining")
        begin = time.monotonic()
        served.stop()  # the second SIGTERM
        assert time.monotonic() - begin < 5
        writer.abandon()


def test_logs_can_be_json(sluiced: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            *(sluiced, "--directory", tmp_path / "arena", "--size", "16MiB"),
            *("--admin-port", "off", "--log-format", "json"),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    first = json.loads(process.stderr.readline())
    assert first["program"] == "sluiced"
    assert first["pid"] == process.pid
    assert first["message"]
    process.terminate()
    rest = [json.loads(line) for line in process.stderr]
    assert process.wait(30) == 0
    assert any("SIGTERM" in entry["message"] for entry in rest)
