"""Errors: one class a code, catchable as the standard exception they are like, whole through
pickle.
"""

import pickle

import pytest
import sluice
from sluice import errors

KINDS = [getattr(errors, name) for name in errors.__all__ if name != "Error"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_is_an_error_with_a_code_of_its_own(kind: type[sluice.Error]) -> None:
    assert issubclass(kind, sluice.Error)
    assert kind.__module__ == "sluice"
    assert kind.__doc__
    assert [other.code for other in KINDS].count(kind.code) == 1
    error = kind("what was wrong")
    assert (str(error), error.drop) == ("what was wrong", "nothing")


@pytest.mark.parametrize(
    ("kind", "standard"),
    [
        (sluice.InvalidArgument, ValueError),
        (sluice.NotFound, KeyError),
        (sluice.TimedOut, TimeoutError),
        (sluice.Unavailable, ConnectionError),
        (sluice.PermissionDenied, PermissionError),
        (sluice.Unsupported, NotImplementedError),
        (sluice.SystemFailure, OSError),
    ],
)
def test_errors_are_caught_as_what_they_are_like(
    kind: type[sluice.Error], standard: type[Exception]
) -> None:
    with pytest.raises(standard):
        raise kind("text")


def test_raised_error_survives_pickle() -> None:
    with pytest.raises(sluice.InvalidArgument) as caught:
        sluice.ObjectKey.parse("nonsense")
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert type(copy) is sluice.InvalidArgument
    assert (str(copy), copy.code, copy.drop) == (
        str(caught.value),
        caught.value.code,
        caught.value.drop,
    )


def test_keys_compare_hash_and_travel_by_text() -> None:
    key = sluice.ObjectKey(
        "item/1", model="org/model", revision="r", encoder="e", dtype="bfloat16", tenant="t"
    )
    assert sluice.ObjectKey.parse(key.text) == key
    assert len({key, sluice.ObjectKey.parse(str(key))}) == 1
    assert key != key.with_id("item/2")
    assert key != key.text
    assert key.with_id("item/2").id == "item/2"
    assert key.text.startswith(key.prefix_text)
    assert key.fields["model"] == "org/model"
    assert pickle.loads(pickle.dumps(key)) == key  # noqa: S301 - our own bytes
    assert repr(key) == f"ObjectKey.parse({key.text!r})"
    with pytest.raises(sluice.InvalidArgument, match="kind is 'other'; it may be 'encoder_output'"):
        sluice.ObjectKey("i", model="m", revision="r", encoder="e", dtype="d", kind="other")
