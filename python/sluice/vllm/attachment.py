"""This process's attachment to the arena, kept up by a thread beside the engine's.

Invariant: `client` is None until a daemon was reached once; from then on look-ups, leases and maps
           go on whether or not a daemon runs. Attachments of earlier arena contents (boots) stay
           reachable, because what was promised under them must still be mapped.
Threads:   `client` and `of_boot` from any thread; everything that may wait happens on the keeper
           thread. Listeners run there too.
Fork:      a child that inherits this object attaches anew on first use.
Failure:   a missing daemon is said once and looked for again, with a back-off that ends at 5 s.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal, Protocol

from vllm.logger import init_logger

from sluice import _core
from sluice.vllm.counters import Counters
from sluice.vllm.settings import ConfigurationError

logger = init_logger("vllm.sluice.attachment")

_BACKOFF_FIRST_S = 0.25
_BACKOFF_MAX_S = 5.0
_TICK_S = 0.5
_TICK_SOON_S = 0.02
_BOOTS_KEPT = 2


class AttachSettings(Protocol):
    """The part of a connector's settings that says which arena, and how to reach it."""

    @property
    def arena(self) -> str: ...
    @property
    def directory(self) -> str: ...
    @property
    def attach_timeout_s(self) -> float: ...
    @property
    def strict_daemon(self) -> bool: ...
    @property
    def verify(self) -> Literal["once", "always"]: ...


Listener = Callable[["_core.Client"], bool]


class Attachment:
    def __init__(self, settings: AttachSettings, label: str, counters: Counters) -> None:
        self._settings = settings
        self._label = label
        self._counters = counters
        self._clients: OrderedDict[int, _core.Client] = OrderedDict()  # by boot, newest last
        self._client: _core.Client | None = None
        self._listeners: list[Listener] = []
        self._said_absent = False
        self._pid = 0
        self._keeper: threading.Thread | None = None

    def start(self) -> None:
        """Attaches if a daemon is there, and starts the keeper. Strict: raises without a daemon."""
        self._pid = os.getpid()
        self._wake = threading.Event()
        self._closing = threading.Event()
        problem = self._attach(self._settings.attach_timeout_s)
        if problem is not None and self._settings.strict_daemon:
            raise ConfigurationError(
                f'"strict_daemon" is set and no arena could be attached: {problem}'
            )
        self._keeper = threading.Thread(target=self._keep, name="sluice-keeper", daemon=True)
        self._keeper.start()

    def listen(self, listener: Listener) -> None:
        """Called on the keeper thread with the client; True asks to be called again soon."""
        self._listeners.append(listener)

    @property
    def client(self) -> "_core.Client | None":
        if os.getpid() != self._pid:
            self._start_in_child()
        return self._client

    def of_boot(self, boot: int) -> "_core.Client | None":
        """The attachment to these contents of the arena, as long as it is kept."""
        client = self.client
        if client is not None and client.boot == boot:
            return client
        return self._clients.get(boot)

    def earlier(self) -> list["_core.Client"]:
        """Attachments to contents that were there before the present ones, latest first."""
        known = list(self._clients.values())  # the keeper may take another one meanwhile
        return [client for client in reversed(known) if client is not self._client]

    def wake(self) -> None:
        """Lets the keeper run its listeners now."""
        self._wake.set()

    def close(self) -> None:
        """Stops the keeper and lets go of the arena. Leases of living tensors end with them."""
        self._closing.set()
        self._wake.set()
        if self._keeper is not None:
            self._keeper.join(timeout=self._settings.attach_timeout_s + 1.0)
        self._client = None
        clients = list(self._clients.values())
        self._clients.clear()
        for client in clients:
            client.close()

    def _start_in_child(self) -> None:
        self._clients = OrderedDict()
        self._client = None
        self._said_absent = False
        self.start()

    def _keep(self) -> None:
        backoff = _BACKOFF_FIRST_S
        wait = _TICK_S
        while not self._closing.is_set():
            self._wake.wait(wait)
            self._wake.clear()
            if self._closing.is_set():
                return
            if self._client is None or not self._client.attached:
                wait = backoff
                if self._attach(min(self._settings.attach_timeout_s, 1.0)) is not None:
                    backoff = min(backoff * 2, _BACKOFF_MAX_S)
                    if self._client is None:
                        continue
                else:
                    backoff = _BACKOFF_FIRST_S
            if self._client is not None and self._client.attached:
                wait = _TICK_S
            if self._listen():
                wait = _TICK_SOON_S

    def _listen(self) -> bool:
        client = self._client
        soon = False
        for listener in self._listeners:
            try:
                soon = (client is not None and listener(client)) or soon
            except _core.Error as error:
                logger.debug("sluice: %s", error)
            except Exception:  # a bug; without this thread the engine would never attach again
                logger.exception("sluice: keeper")
        return soon

    def _attach(self, timeout: float) -> str | None:
        """None on success, else why not."""
        try:
            client = _core.Client.attach(
                self._settings.arena,
                directory=self._settings.directory,
                label=self._label,
                timeout=timeout,
                verify=self._settings.verify,
            )
            self._take(client)
        except _core.Error as error:
            self._say_absent(str(error))
            return str(error)
        self._counters.add("attaches")
        if self._said_absent:
            where = client.directory
            logger.info("sluice: attached to arena %r at %s", self._settings.arena, where)
        self._said_absent = False
        return None

    def _take(self, fresh: "_core.Client") -> None:
        """The same contents as before: the attachment that is there goes on. Others: both stay."""
        if self._client is not None and self._client.boot == fresh.boot:
            fresh.close()
            self._client.reattach(self._settings.attach_timeout_s)
            return
        self._clients[fresh.boot] = fresh
        while len(self._clients) > _BOOTS_KEPT:
            self._clients.popitem(last=False)
        self._client = fresh

    def _say_absent(self, why: str) -> None:
        """Once, until an attach succeeds."""
        if self._said_absent:
            return
        self._said_absent = True
        if self._client is None:
            text = "no arena %r yet (%s); this engine serves alone until one appears"
        else:
            text = "no daemon serves arena %r now (%s); what is in it stays readable, saves fail"
        logger.warning("sluice: " + text, self._settings.arena, why)
