"""HTTP/1.1 over a plain socket, so that a test decides every byte that is sent and sees every byte
that comes back.

Threads: one a connection. Failure: OSError and TimeoutError as the socket raises them; Broken for
an answer that is no HTTP or ends too early.
"""

import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

TIMEOUT_S = 20.0


class Broken(Exception):
    """The other side closed, or sent what is no answer."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""

    def header(self, name: str) -> str | None:
        """The one header of this name; None when there is none."""
        found = [value for key, value in self.headers if key == name.lower()]
        assert len(found) <= 1, f"{name} came {len(found)} times"
        return found[0] if found else None

    def json(self) -> Any:
        return json.loads(self.body)

    def error(self) -> dict[str, Any]:
        """The OpenAI error object that a refusal must carry."""
        error = self.json()["error"]
        assert isinstance(error, dict)
        assert isinstance(error["message"], str)
        assert error["message"]
        assert isinstance(error["type"], str)
        return error


def request(
    method: str, target: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> bytes:
    """A well-formed request."""
    fields = {"host": "proxy", "content-type": "application/json", **(headers or {})}
    if body or method == "POST":
        fields.setdefault("content-length", str(len(body)))
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode() + body


@dataclass
class Connection:
    """One connection to `port` on `host`; a context manager."""

    port: int
    host: str = "127.0.0.1"
    timeout_s: float = TIMEOUT_S
    receive_buffer: int = 0  # bytes, or what the system gives
    _unread: bytes = field(default=b"", init=False)

    def __post_init__(self) -> None:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        if self.receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer)
        self.socket.settimeout(self.timeout_s)
        self.socket.connect((self.host, self.port))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(
        self, method: str, target: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        self.send(request(method, target, body, headers))
        return self.answer()

    def answer(self) -> Answer:
        """A whole answer."""
        head = self.head()
        return Answer(head.status, head.headers, b"".join(self.pieces(head)))

    def head(self) -> Answer:
        """The head of an answer; pieces() gives its body."""
        lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        words = lines[0].split(" ", 2)
        if not words[0].startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
            raise Broken(f"no status line: {lines[0]!r}")
        headers = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise Broken(f"no header: {line!r}")
            headers.append((name.lower(), value.strip()))
        return Answer(int(words[1]), headers)

    def pieces(self, head: Answer) -> Iterator[bytes]:
        """The body of the answer in the pieces it is framed in."""
        if head.header("transfer-encoding") == "chunked":
            while size := int(self._until(b"\r\n"), 16):
                yield self._exactly(size)
                if self._exactly(2) != b"\r\n":
                    raise Broken("a chunk has no end")
            self._until(b"\r\n")
        elif (length := head.header("content-length")) is not None:
            yield self._exactly(int(length))
        elif head.status not in {204, 304}:
            while True:  # to the end of the connection
                if self._unread:
                    yield self._exactly(len(self._unread))
                if not (data := self.socket.recv(1 << 16)):
                    return
                self._unread = data

    def is_closed(self) -> bool:
        """Waits until the other side closes. False when it sends something instead."""
        try:
            return not self._unread and self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _until(self, end: bytes) -> bytes:
        while (at := self._unread.find(end)) < 0:
            self._more()
        out, self._unread = self._unread[:at], self._unread[at + len(end) :]
        return out

    def _exactly(self, size: int) -> bytes:
        while len(self._unread) < size:
            self._more()
        out, self._unread = self._unread[:size], self._unread[size:]
        return out

    def _more(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise Broken(f"closed after {self._unread!r}"[:300])
        self._unread += data


def ask(
    port: int,
    method: str,
    target: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
) -> Answer:
    """One request on a connection of its own."""
    with Connection(port, timeout_s=timeout_s) as connection:
        return connection.ask(method, target, body, headers)
