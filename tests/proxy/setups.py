"""What the tests of this folder stand on: engines with a proxy before them, and counts."""

import os
from collections.abc import Callable

from proxy_process import Proxy
from stub_engine import StubEngine

TOKEN = "secret-of-a-test-0123456789"

NewStub = Callable[..., StubEngine]
NewProxy = Callable[..., Proxy]


def soak(full: int, small: int) -> int:
    """How many of something: `small` ordinarily, `full` with SLUICE_SOAK=1."""
    return full if os.environ.get("SLUICE_SOAK") == "1" else small


class Pair:
    """One engine that does everything, and a proxy before it."""

    def __init__(self, engine: StubEngine, proxy: Proxy) -> None:
        self.engine = engine
        self.proxy = proxy


class Trio:
    """An encoder, a prefill and a decode engine, and a proxy before them."""

    def __init__(
        self, encoder: StubEngine, prefill: StubEngine, decode: StubEngine, proxy: Proxy
    ) -> None:
        self.encoder = encoder
        self.prefill = prefill
        self.decode = decode
        self.proxy = proxy

    @property
    def engines(self) -> list[StubEngine]:
        return [self.encoder, self.prefill, self.decode]
