"""Scripted engines and proxies for the tests of this folder."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from proxy_process import Proxy
from setups import TOKEN, NewProxy, NewStub, Pair, Trio
from stub_engine import StubEngine


@pytest.fixture
def new_stub(build_dir: Path) -> Iterator[NewStub]:
    with ExitStack() as stack:
        yield lambda role, **options: stack.enter_context(StubEngine(build_dir, role, **options))


@pytest.fixture
def new_proxy(build_dir: Path, new_stub: NewStub) -> Iterator[NewProxy]:
    """Proxies end before the engines behind them."""
    with ExitStack() as stack:

        def make(*engines: StubEngine | str, **settings: Any) -> Proxy:
            instances = [each if isinstance(each, str) else each.instance for each in engines]
            return stack.enter_context(Proxy(build_dir, *instances, **settings))

        yield make


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """A file with TOKEN that only its owner can read."""
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def shared_pair(build_dir: Path) -> Iterator[Pair]:
    with (
        StubEngine(build_dir, "colocated") as engine,
        Proxy(build_dir, engine.instance) as proxy,
    ):
        yield Pair(engine, proxy)


@pytest.fixture
def pair(shared_pair: Pair) -> Pair:
    """A proxy with default settings; the engine remembers nothing of other tests."""
    shared_pair.engine.forget()
    return shared_pair


@pytest.fixture(scope="module")
def shared_trio(build_dir: Path) -> Iterator[Trio]:
    with (
        StubEngine(build_dir, "encoder") as encoder,
        StubEngine(build_dir, "prefill") as prefill,
        StubEngine(build_dir, "decode") as decode,
        Proxy(build_dir, encoder.instance, prefill.instance, decode.instance) as proxy,
    ):
        yield Trio(encoder, prefill, decode, proxy)


@pytest.fixture
def trio(shared_trio: Trio) -> Trio:
    for engine in shared_trio.engines:
        engine.forget()
    return shared_trio
