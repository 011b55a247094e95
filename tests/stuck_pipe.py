"""The log of a process under test whose reader stands still."""

import fcntl
import os

CAPACITY_BYTES = 4096  # of the pipe: the least that there is


class StuckPipe:
    """Given to Popen as stdout or stderr: takes lines until fill(), then not one byte more until
    text() is called.
    """

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        fcntl.fcntl(self._write_end, fcntl.F_SETPIPE_SZ, CAPACITY_BYTES)

    def fileno(self) -> int:
        return self._write_end

    def fill(self) -> None:
        # By a description of its own: the process under test shares the other one's flags.
        writer = os.open(f"/proc/self/fd/{self._write_end}", os.O_WRONLY | os.O_NONBLOCK)
        try:
            while True:
                os.write(writer, b"\n")
        except BlockingIOError:
            pass
        finally:
            os.close(writer)

    def text(self) -> str:
        """What the pipe held, which has room for as much again."""
        reader = os.open(f"/proc/self/fd/{self._read_end}", os.O_RDONLY | os.O_NONBLOCK)
        try:
            return os.read(reader, CAPACITY_BYTES).decode()
        except BlockingIOError:
            return ""
        finally:
            os.close(reader)

    def close(self) -> None:
        os.close(self._read_end)
        os.close(self._write_end)
