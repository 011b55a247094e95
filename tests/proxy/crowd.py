"""Many clients at once, on one event loop."""

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator

from chat import Stream, add_event
from raw_http import request

EVENT_BYTES_MAX = 1 << 22


def allow_open_files(count: int) -> None:
    """Raises this process's own limit as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 256
    assert hard == resource.RLIM_INFINITY or wanted <= hard, f"at most {hard} files may be open"
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Client:
    """One connection. The framing of what comes back is checked."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, receive_buffer: int = 0) -> "Client":
        """`receive_buffer`: bytes that the system keeps for it unread, or what it likes."""
        made = socket.socket()
        made.setblocking(False)
        if receive_buffer:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
        return cls(*await asyncio.open_connection(sock=made, limit=EVENT_BYTES_MAX))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body."""
        await self.send(request(method, target, body))
        status, fields = await self.head()
        return status, b"".join([piece async for piece in self.pieces(fields)])

    async def stream(self, target: str, body: bytes) -> tuple[int, Stream]:
        """Status, and what the stream said until its end. A refusal is an empty stream."""
        await self.send(request("POST", target, body))
        status, fields = await self.head()
        out = Stream([])
        held = b""
        async for piece in self.pieces(fields):
            held += piece
            while status == 200 and (end := held.find(b"\n\n")) >= 0:
                add_event(out, held[: end + 2])
                held = held[end + 2 :]
        assert status != 200 or not held, f"half an event at the end: {held!r}"
        return status, out

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split(" ")[1]), {name.lower(): fields[name] for name in fields}

    async def pieces(self, fields: dict[str, str]) -> AsyncIterator[bytes]:
        if fields.get("transfer-encoding") != "chunked":
            yield await self.reader.readexactly(int(fields["content-length"]))
            return
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            piece = await self.reader.readexactly(size + 2)
            assert piece.endswith(b"\r\n"), "a chunk has no end"
            yield piece[:-2]
        await self.reader.readuntil(b"\r\n")

    async def is_closed(self) -> bool:
        """Waits until the other side closes, whatever it says before."""
        try:
            while await self.reader.read(1 << 16):
                pass
        except ConnectionError:
            pass
        return True

    def vanish(self) -> None:
        """Resets the connection, as a client does that dies."""
        transport = self.writer.transport
        transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()
