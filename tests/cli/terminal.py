"""What a program prints on a terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import termios

from programs import TIMEOUT_S


def terminal_output(command: list[str], columns: int = 0, **environment: str) -> bytes:
    """Until it ends. `columns`: how wide the terminal says it is; 0: it does not say."""
    master, slave = pty.openpty()
    if columns:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with subprocess.Popen(
        command, stdout=slave, env={**os.environ, "TERM": "xterm", **environment}
    ) as process:
        os.close(slave)
        out = b""
        while True:
            try:
                block = os.read(master, 65536)
            except OSError:
                break
            if not block:
                break
            out += block
        process.wait(TIMEOUT_S)
    os.close(master)
    return out
