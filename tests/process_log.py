"""What a process under test prints, kept in a file that has no name."""

import os
import tempfile


class ProcessLog:
    """Given to Popen as stdout or stderr; may be read while the process writes.

    Writer and reader share one place in the file, as they share its description: a reader that
    moved it would let the process write over what it has printed. So text() never moves it.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()

    def fileno(self) -> int:
        return self._file.fileno()

    def text(self) -> str:
        """All that was printed so far; its last line may be half of one."""
        size = os.fstat(self.fileno()).st_size
        return os.pread(self.fileno(), size, 0).decode(errors="replace")

    def close(self) -> None:
        self._file.close()
