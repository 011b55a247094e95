"""A whole deployment behind one endpoint: sluiced, an encoder, a prefill and a decode engine, the
proxy, and a colocated engine as the measure, which the proxy does not know.
"""

import contextlib
import json
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import asking
from arena_process import ArenaProcess
from asking import CHAT, Reply
from engine_group import EngineGroup, wait_until
from engine_process import BUILD, EngineOptions, EngineProcess, Role
from kv_pair import Json, kv_flags
from proxy_process import Proxy

TOKEN = "of-this-test"  # for the list of instances; clients on loopback need none
RUNNING_MAX = 20  # requests that one engine is given at a time
FLAGS = (
    # A prompt of some length is computed in several steps.
    *("--max-num-batched-tokens", "1024", "--enable-chunked-prefill"),
    # Processor arguments of engine and request: identifiers are not the uuids that were sent.
    *("--mm-processor-kwargs", '{"min_pixels": 50176}', "--trust-request-mm-kwargs"),
)


class Endpoint(EngineGroup):
    """`staged`: flags of prefill and decode only."""

    def __init__(
        self,
        model: Path,
        logs: Path,
        name: str = "ep",
        flags: Sequence[str] = FLAGS,
        staged: Sequence[str] = (),
        **kv: object,
    ) -> None:
        super().__init__(ArenaProcess("512MiB"), logs)
        directory = self.arena.directory

        def engine(place: str, ec_role: Role | None = None, kv_role: str = "") -> EngineProcess:
            transfer = [*kv_flags(place, kv_role, directory, **kv), *staged] if kv_role else []
            return self.start(
                EngineOptions(
                    f"{name}-{place}", model, ec_role, directory, flags=[*flags, *transfer]
                )
            )

        self.encoder = engine("encoder", "ec_producer")
        self.prefill = engine("prefill", "ec_consumer", "kv_producer")
        self.decode = engine("decode", "ec_consumer", "kv_consumer")
        self.colocated = engine("colocated")
        self.proxy: Proxy | None = None

    def begin(self) -> None:
        self.start_proxy()

    def end(self, kill: bool) -> None:
        with contextlib.ExitStack() as last:
            last.callback(super().end, kill)
            if self.proxy is not None:
                last.callback(self.proxy.close)

    def start_proxy(self) -> None:
        instances = [
            f"{role}={engine.http.address}"
            for role, engine in zip(("encoder", "prefill", "decode"), self.engines, strict=False)
        ]
        self.proxy = Proxy(
            BUILD,
            *instances,
            arena_directory=self.arena.directory,
            health_interval="500ms",
            health_timeout="10s",
            running_max=RUNNING_MAX,
            environment={"SLUICE_TOKEN": TOKEN},
        )
        wait_until(lambda: all(self.usable().values()), "the proxy uses every engine")

    # --- requests ---

    @property
    def address(self) -> str:
        assert self.proxy is not None
        return f"http://127.0.0.1:{self.proxy.port}"

    def ask(self, asked: Json) -> Reply:
        return asking.ask(self.address, asked)

    def measure(self, asked: Json) -> Reply:
        """What one engine answers that does it all."""
        for engine in self.engines:
            engine.http.empty_encoder_cache()
        alone = asking.ask(self.colocated.http.address, asked)
        assert alone.tokens, alone.error
        return alone

    def leave(self, asked: Json, after_s: float) -> None:
        """Sends a request and closes the connection so long after, whatever has come."""
        with self.sent(asked) as connection:
            connection.settimeout(after_s)
            with contextlib.suppress(TimeoutError):
                while connection.recv(65536):
                    pass

    @contextlib.contextmanager
    def sent(self, asked: Json) -> Iterator[socket.socket]:
        """The connection of a request that was sent; its client leaves at the end."""
        assert self.proxy is not None
        text = json.dumps(asked).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.proxy.port)) as connection:
            connection.sendall(head.encode() + text)
            yield connection

    # --- looking in ---

    def counted(self, name: str, role: str = "") -> float:
        """A metric of the proxy, of one role or summed over its labels."""
        assert self.proxy is not None
        labels = rf'\{{role="{role}"\}}$' if role else r"(\{|$)"
        return self.proxy.metric(rf"^sluice_proxy_{name}{labels}")

    def growth(self, *names: str) -> Callable[[], list[float]]:
        """How much these counts of the proxy will have grown when the result is called."""
        before = [self.counted(name) for name in names]
        return lambda: [self.counted(name) - was for name, was in zip(names, before, strict=True)]

    def moved(self) -> Callable[[], tuple[float, float]]:
        """Bytes of KV that prefill will have written and decode copied when the result is called,
        which waits until nothing is under way."""

        def now() -> tuple[float, float]:
            self.await_idle()
            return self.prefill.kv()["bytes_sent"], self.decode.kv()["bytes_received"]

        sent, received = now()

        def since() -> tuple[float, float]:
            sent_now, received_now = now()
            return sent_now - sent, received_now - received

        return since

    def usable(self) -> dict[str, bool]:
        """Role -> does the proxy send requests to its engine?"""
        assert self.proxy is not None
        answer = self.proxy.ask(
            "GET", "/v1/instances", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        listed = json.loads(answer.body)
        return {one["role"]: one["healthy"] for one in listed["instances"]}
