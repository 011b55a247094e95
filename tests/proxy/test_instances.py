"""Engines come and go while the proxy runs; what it is started with is checked."""

import json
import subprocess
from pathlib import Path

import pytest
from chat import CHAT, chat
from proxy_process import Proxy, free_port
from raw_http import Answer
from setups import TOKEN, NewProxy, NewStub
from waiting import until

INSTANCES = "/v1/instances"
BAD_CONFIG = 78


def registration(role: str, url: str) -> bytes:
    return json.dumps({"role": role, "url": url}).encode()


def instances(proxy: Proxy, method: str, body: bytes = b"", *, number: str = "") -> Answer:
    """Who may change them needs the token, on loopback too."""
    target = INSTANCES + (f"/{number}" if number else "")
    return proxy.ask(method, target, body, {"authorization": f"Bearer {TOKEN}"})


def numbers(proxy: Proxy, url: str) -> list[str]:
    """The ids that an engine is listed under."""
    listed = instances(proxy, "GET").json()["instances"]
    return [str(each["id"]) for each in listed if each["url"] == url]


def test_an_engine_registers_and_leaves(
    new_stub: NewStub, new_proxy: NewProxy, token_file: Path
) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(ready=False, token_file=token_file)
    answer = proxy.ask("POST", CHAT, chat())
    assert answer.status == 503
    answer.error()
    body = registration("colocated", engine.url)
    assert instances(proxy, "POST", body).status in {200, 201}
    until(lambda: proxy.ask("POST", CHAT, chat()).status == 200, "it serves")
    (number,) = numbers(proxy, engine.url)
    until(lambda: proxy.ask("GET", "/readyz").status == 200, "it is ready")
    assert instances(proxy, "DELETE", number=number).status in {200, 204}
    assert instances(proxy, "DELETE", number=number).status == 404
    assert proxy.ask("POST", CHAT, chat()).status == 503
    assert numbers(proxy, engine.url) == []


def test_registering_twice_is_one_instance(
    new_stub: NewStub, new_proxy: NewProxy, token_file: Path
) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(engine, token_file=token_file)
    for _ in range(3):
        status = instances(proxy, "POST", registration("colocated", engine.url)).status
        assert status in {200, 201, 409}
    assert len(numbers(proxy, engine.url)) == 1


BAD = {
    "no_json": b"role",
    "an_array": b"[]",
    "no_role": b'{"url":"http://127.0.0.1:1"}',
    "no_url": b'{"role":"decode"}',
    "an_unknown_role": registration("boss", "http://127.0.0.1:1"),
    "https": registration("decode", "https://127.0.0.1:1"),
    "no_scheme": registration("decode", "127.0.0.1:1"),
    "another_scheme": registration("decode", "file:///etc/passwd"),
    "a_path": registration("decode", "http://127.0.0.1:1/admin"),
    "a_query": registration("decode", "http://127.0.0.1:1?x"),
    "a_user": registration("decode", "http://user:word@127.0.0.1:1"),
    "port_0": registration("decode", "http://127.0.0.1:0"),
    "port_65536": registration("decode", "http://127.0.0.1:65536"),
    "a_negative_port": registration("decode", "http://127.0.0.1:-1"),
    "ipv6_without_brackets": registration("decode", "http://::1:8000"),
    "half_a_bracket": registration("decode", "http://[::1:8000"),
    "a_line_end": registration("decode", "http://a\r\nx: y:80"),
    "nul": registration("decode", "http://a\0b:80"),
    "no_host": registration("decode", "http://:80"),
    "a_number_for_a_url": b'{"role":"decode","url":1}',
    "deep": b'{"role":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


def test_bad_registrations_are_refused(
    new_stub: NewStub, new_proxy: NewProxy, token_file: Path
) -> None:
    proxy = new_proxy(new_stub("colocated"), token_file=token_file)
    before = len(instances(proxy, "GET").json()["instances"])
    for name, body in BAD.items():
        answer = instances(proxy, "POST", body)
        assert answer.status in {400, 413, 422}, name
        answer.error()
    assert len(instances(proxy, "GET").json()["instances"]) == before
    assert proxy.ask("POST", CHAT, chat()).status == 200


def start(build: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    program = build / "apps" / "sluice-proxy" / "sluice-proxy"
    return subprocess.run(
        [program, *flags], capture_output=True, text=True, timeout=20, check=False
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_host_beyond_loopback_without_a_token_is_refused(build_dir: Path, host: str) -> None:
    done = start(build_dir, "--host", host, "--port", str(free_port()))
    assert done.returncode == BAD_CONFIG, done.stderr
    assert "token" in done.stderr


def test_a_token_file_that_others_can_read_is_refused(build_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret-of-a-test-0123456789")
    file.chmod(0o644)
    done = start(build_dir, "--port", str(free_port()), "--token-file", str(file))
    assert done.returncode == BAD_CONFIG
    assert "secret-of-a-test" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    "flags",
    [
        ("--instance", "boss=http://127.0.0.1:1"),
        ("--instance", "decode"),
        ("--instance", "decode=ftp://127.0.0.1:1"),
        ("--drain-timeout", "soon"),
        ("--engine-keep-alive", "-1s"),
        ("--on-failure", "panic"),
    ],
    ids=" ".join,
)
def test_a_setting_that_is_wrong_stops_the_start(build_dir: Path, flags: tuple[str, ...]) -> None:
    done = start(build_dir, "--port", str(free_port()), *flags)
    assert done.returncode == BAD_CONFIG, done.stderr
    assert flags[0].removeprefix("--").replace("-", "") in done.stderr.replace("-", "")


def test_an_unknown_flag_stops_the_start(build_dir: Path) -> None:
    assert start(build_dir, "--prot", "1").returncode != 0


def test_all_is_ready_only_when_every_engine_is_healthy(
    new_stub: NewStub, new_proxy: NewProxy
) -> None:
    engine = new_stub("colocated")
    proxy = new_proxy(engine, "encoder=http://127.0.0.1:9", ready=False, health_interval="50ms")
    until(lambda: proxy.ask("GET", "/readyz").status == 200, "the one that answers is healthy")
    assert proxy.ask("GET", "/readyz?all").status == 503


def test_no_engine_makes_it_ready_before_it_has_answered(
    new_stub: NewStub, new_proxy: NewProxy, token_file: Path
) -> None:
    """Not what is configured or registered counts. A new one is asked at once, not at the next
    round, which here never comes."""
    proxy = new_proxy(
        "colocated=http://127.0.0.1:9",
        ready=False,
        health_interval="1h",
        token_file=token_file,
    )
    assert proxy.ask("GET", "/readyz").status == 503
    encoder = new_stub("encoder")
    assert instances(proxy, "POST", registration("encoder", encoder.url)).status == 201
    until(lambda: encoder.counts()["probes"] == 1, "the encoder was asked")
    assert proxy.ask("GET", "/readyz").status == 503, "an encoder alone answers no request"
    engine = new_stub("colocated")
    assert instances(proxy, "POST", registration("colocated", engine.url)).status == 201
    until(lambda: proxy.ask("GET", "/readyz").status == 200, "the engine has answered")
    assert proxy.ask("GET", "/readyz?all").status == 503, "the first engine never answered"
    listed = instances(proxy, "GET").json()["instances"]
    assert [one["answered"] for one in listed] == [False, True, True]
