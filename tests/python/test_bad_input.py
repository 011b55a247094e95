"""Bad input is refused with its own reason, changes nothing, and the next good call works."""

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import sluice
import torch
from arena_daemon import ArenaDaemon

GOOD = torch.zeros(4)

REFUSED: dict[str, tuple[Callable[[sluice.Client], object], type[sluice.Error], str]] = {
    "zero size": (
        lambda c: c.put("k", torch.zeros(0, 5)),
        sluice.InvalidArgument,
        "'tensor' has no elements",
    ),
    "zero size in a bundle": (
        lambda c: c.put("k", {"a": GOOD, "b": numpy.zeros((3, 0))}),
        sluice.InvalidArgument,
        "'b' has no elements",
    ),
    "empty bundle": (lambda c: c.put("k", {}), sluice.InvalidArgument, "at least one tensor"),
    "empty id": (lambda c: c.put("", GOOD), sluice.InvalidArgument, "id"),
    "larger than the arena": (
        lambda c: c.put("k", numpy.zeros(128 << 20, dtype=numpy.uint8)),
        sluice.Limit,
        "larger than a segment",
    ),
    "nine dimensions": (
        lambda c: c.put("k", torch.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1)),
        sluice.InvalidArgument,
        "8 dimensions",
    ),
    "complex": (
        lambda c: c.put("k", torch.zeros(3, dtype=torch.complex64)),
        sluice.InvalidArgument,
        "complex64",
    ),
    "python objects": (
        lambda c: c.put("k", numpy.array([None, 1])),
        sluice.InvalidArgument,
        "object",
    ),
    "dates": (
        lambda c: c.put("k", numpy.array(["2020-01-01"], dtype="datetime64[D]")),
        sluice.InvalidArgument,
        "datetime64",
    ),
    "sparse": (
        lambda c: c.put("k", torch.eye(3).to_sparse()),
        sluice.InvalidArgument,
        "sparse_coo.*dense tensor",
    ),
    "without memory": (
        lambda c: c.put("k", torch.zeros(3, device="meta")),
        sluice.InvalidArgument,
        "device meta",
    ),
    "a list": (
        lambda c: c.put("k", [1, 2]),  # type: ignore[arg-type]
        sluice.InvalidArgument,
        "of type list; pass a torch tensor",
    ),
    "a name that is no text": (
        lambda c: c.put("k", {1: GOOD}),  # type: ignore[dict-item]
        sluice.InvalidArgument,
        "name is 1",
    ),
    "a long name": (lambda c: c.put("k", {"n" * 65: GOOD}), sluice.InvalidArgument, "64"),
    "many tensors": (
        lambda c: c.put("k", {f"t{i}": GOOD for i in range(65)}),
        sluice.Limit,
        "64",
    ),
    "an attribute of another type": (
        lambda c: c.put("k", GOOD, attributes={"a": {1}}),  # type: ignore[dict-item]
        sluice.InvalidArgument,
        "attribute 'a' is of type set",
    ),
    "a mixed attribute": (
        lambda c: c.put("k", GOOD, attributes={"a": [1, "x"]}),  # type: ignore[dict-item]
        sluice.InvalidArgument,
        "attribute 'a' is of type str",
    ),
    "a huge integer attribute": (
        lambda c: c.put("k", GOOD, attributes={"a": 2**64}),
        sluice.InvalidArgument,
        "64 bits",
    ),
    "long attributes": (
        lambda c: c.put("k", GOOD, attributes={"a": "x" * 5000}),
        sluice.Limit,
        "4096",
    ),
    "a negative timeout": (
        lambda c: c.put("k", GOOD, timeout=-1),
        sluice.InvalidArgument,
        "timeout is -1",
    ),
    "an endless timeout": (
        lambda c: c.wait("k", float("inf")),
        sluice.InvalidArgument,
        "timeout is inf seconds; it may be 0 to 600",
    ),
    "no number as timeout": (
        lambda c: c.wait("k", float("nan")),
        sluice.InvalidArgument,
        "timeout is nan",
    ),
    "a wrong pin": (
        lambda c: c.put("k", GOOD, pin="soft"),  # type: ignore[arg-type]
        sluice.InvalidArgument,
        "'hard' or None",
    ),
    "a wrong verify": (
        lambda c: c.get("good", verify="twice"),  # type: ignore[call-overload]
        sluice.InvalidArgument,
        "'once', 'always' or 'never'",
    ),
    "a wrong as_": (
        lambda c: c.get("good", as_="jax"),  # type: ignore[call-overload]
        sluice.InvalidArgument,
        "'torch' or 'numpy'",
    ),
    "a dtype of no name": (
        lambda c: c.reserve("k", ("float7", (1,))),
        sluice.InvalidArgument,
        "float7",
    ),
    "a dtype that is none": (
        lambda c: c.reserve("k", (object(), (1,))),  # type: ignore[arg-type]
        sluice.InvalidArgument,
        "is not a dtype",
    ),
    "a spec that is none": (
        lambda c: c.reserve("k", "float32"),  # type: ignore[call-overload]
        sluice.InvalidArgument,
        r"pass \(dtype, shape\)",
    ),
    "a negative extent": (
        lambda c: c.reserve("k", ("float32", (2, -1))),
        sluice.InvalidArgument,
        "negative",
    ),
    "a shape that overflows": (
        lambda c: c.reserve("k", ("float32", (2**62, 2**62))),
        sluice.InvalidArgument,
        "64 bits",
    ),
    "a shape of text": (
        lambda c: c.reserve("k", ("float32", "ab")),  # type: ignore[arg-type]
        sluice.InvalidArgument,
        "shape",
    ),
    "a key with a bad field": (
        lambda c: c.get("sluice1@tenant:x@id:y"),
        sluice.InvalidArgument,
        "expected kind:",
    ),
    "a long key": (lambda c: c.get("k" * 2000), sluice.Error, "1024"),
    "an empty prefix": (lambda c: c.invalidate(""), sluice.InvalidArgument, "prefix"),
    "too many keys": (lambda c: c.wait([f"{i}" for i in range(4097)], 0), sluice.Limit, "4096"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_with_its_reason(shared_client: sluice.Client, name: str) -> None:
    call, kind, message = REFUSED[name]
    shared_client.put("good", GOOD)
    with pytest.raises(kind, match=message) as caught:
        call(shared_client)
    assert caught.value.code
    assert [one["key"] for one in shared_client.list()] == [sluice.ObjectKey.from_text("good").text]
    assert shared_client.lookup("k") == "absent"
    assert shared_client.put("next", GOOD) == "published"
    assert torch.equal(shared_client.get("next"), GOOD)


USES: dict[str, Callable[[sluice.Client], Any]] = {
    "put": lambda c: c.put("k", GOOD),
    "get": lambda c: c.get("k"),
    "get_bundle": lambda c: c.get_bundle("k"),
    "reserve": lambda c: c.reserve("k", ("uint8", (1,))),
    "lookup": lambda c: c.lookup("k"),
    "lookup_many": lambda c: c.lookup_many(["k"]),
    "wait": lambda c: c.wait("k", 0),
    "list": lambda c: c.list(),
    "stats": lambda c: c.stats(),
    "clients": lambda c: c.clients(),
    "remove": lambda c: c.remove("k"),
    "invalidate": lambda c: c.invalidate("k"),
    "pin": lambda c: c.pin("k"),
    "unpin": lambda c: c.unpin("k"),
    "post": lambda c: c.core.post("text"),
    "reattach": lambda c: c.core.reattach(0.1),
}


@pytest.mark.parametrize("name", USES)
def test_closed_client_answers_detached(client: sluice.Client, name: str) -> None:
    client.close()
    client.close()
    with pytest.raises(sluice.Detached, match="closed"):
        USES[name](client)
    assert not client.attached
    assert "not attached" in repr(client)


def test_connect_without_a_daemon_names_the_remedy(daemon: ArenaDaemon) -> None:
    with pytest.raises(sluice.Unavailable, match="sluiced") as caught:
        sluice.connect(directory=daemon.directory + "-other", timeout=0.05)
    assert isinstance(caught.value, ConnectionError)
    with pytest.raises(sluice.InvalidArgument):
        sluice.connect("no/such/name")
    with pytest.raises(sluice.InvalidArgument, match="63"):
        sluice.connect(directory=daemon.directory, label="x" * 64)
    with pytest.raises(sluice.InvalidArgument, match="'once', 'always' or 'never'"):
        sluice.connect(directory=daemon.directory, verify="maybe")  # type: ignore[arg-type]
