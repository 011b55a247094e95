"""What a connector's process posts on its client page for the peers of the arena: JSON that says
what is so, not what changed, so that a lost reading loses nothing.

Threads: any. post() never raises: what cannot be posted now is posted later.
Limits:  whoever adds facts sees to it that a page stays far below 60 KiB.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from sluice import _core
from sluice.vllm.attachment import Attachment
from sluice.vllm.counters import Counters


class Poster(Protocol):
    """Who posts: the fields of an Identity that every page has."""

    @property
    def engine(self) -> str: ...
    @property
    def side(self) -> str: ...
    @property
    def rank(self) -> int: ...


class Page:
    """`kind` and `version` mark the pages of one connector. Its kinds add facts of their own:
    they change them inside `_change()` and name them in `_more()`."""

    def __init__(
        self, kind: str, version: int, attachment: Attachment, poster: Poster, counters: Counters
    ) -> None:
        self._kind = kind
        self._format = version
        self._attachment = attachment
        self._poster = poster
        self._counters = counters
        self._lock = threading.Lock()
        self._facts: dict[str, Any] = {}
        self._version = 0  # of everything but the counters
        self._posted: tuple[int, int, int, int] | None = None

    def state(self, name: str, value: Any) -> None:
        """A fact about this process; JSON values only. Seen with the next post."""
        with self._change():
            self._facts[name] = value

    def post(self) -> None:
        """Posts if anything changed."""
        client = self._attachment.client
        if client is None:
            return
        try:
            with self._lock:
                now = (client.boot, client.id, self._version, self._counters.version)
                if now != self._posted:
                    client.post(self._text(client.boot))
                    self._posted = now
        except _core.Error:
            return

    def keep(self, client: "_core.Client") -> bool:
        """Keeper's listener: a fresh attachment has an empty page, which is written here."""
        self.post()
        return False

    @contextmanager
    def _change(self) -> Iterator[None]:
        with self._lock:
            self._version += 1
            yield

    def _more(self) -> dict[str, Any]:
        """Called with the lock held."""
        return {}

    def _text(self, boot: int) -> str:
        board = {
            self._kind: self._format,
            "engine": self._poster.engine,
            "side": self._poster.side,
            "rank": self._poster.rank,
            "boot": boot,
            "counters": self._counters.snapshot(),
            **self._more(),
            **self._facts,
        }
        return json.dumps(board, separators=(",", ":"))
