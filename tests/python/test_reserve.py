"""Writing in place: pending until published, gone when abandoned, and harmless afterwards."""

import gc

import numpy
import pytest
import sluice
import torch
from arena_daemon import ArenaDaemon
from waiting import until

SPEC = ("float32", (256, 1024))


def reserved(client: sluice.Client, key: str) -> sluice.Reservation[torch.Tensor]:
    reservation = client.reserve(key, SPEC)
    assert reservation is not None
    return reservation


def test_clean_exit_publishes_what_was_written(client: sluice.Client) -> None:
    with reserved(client, "photo") as reservation:
        assert client.lookup("photo") == "pending"
        with pytest.raises(sluice.Pending):
            client.get("photo")
        tensor = reservation.tensor
        assert (tensor.dtype, tuple(tensor.shape)) == (torch.float32, (256, 1024))
        torch.arange(256 * 1024, out=tensor.view(-1))
    assert reservation.outcome == "published"
    assert client.lookup("photo") == "present"
    expected = torch.arange(256 * 1024, dtype=torch.float32).reshape(256, 1024)
    assert torch.equal(client.get("photo"), expected)


def test_exception_abandons(client: sluice.Client) -> None:
    reservation = reserved(client, "photo")

    def encode() -> None:
        with reservation:
            reservation.tensor.fill_(1)
            raise RuntimeError("encoder failed")

    with pytest.raises(RuntimeError, match="encoder"):
        encode()
    until(lambda: client.lookup("photo") == "absent", "the daemon hears of the end")
    assert reservation.outcome is None
    with reserved(client, "photo") as again:
        again.tensor.fill_(2)
    assert float(client.get("photo")[0, 0]) == 2


def test_several_tensors_numpy_and_attributes(client: sluice.Client) -> None:
    reservation = client.reserve(
        "photo",
        {"a": (numpy.dtype("int16"), (3,)), "b": (torch.int64, [2, 2]), "c": ("bool", ())},
        as_="numpy",
        attributes={"rows": 3},
    )
    assert reservation is not None
    assert list(reservation) == ["a", "b", "c"]
    with reservation:
        reservation["a"][:] = [1, 2, 3]
        reservation["b"][:] = 7
        reservation["c"][()] = True
        with pytest.raises(sluice.InvalidArgument, match="name one of"):
            _ = reservation.tensor
    with client.get_bundle("photo", as_="numpy") as bundle:
        assert bundle["a"].tolist() == [1, 2, 3]
        assert bundle["b"].tolist() == [[7, 7], [7, 7]]
        assert bool(bundle["c"])
        assert bundle.attributes == {"rows": [3]}


def test_tensor_kept_past_publish_can_not_change_the_object(
    client: sluice.Client, daemon: ArenaDaemon
) -> None:
    with reserved(client, "photo") as reservation:
        kept = reservation.tensor
        kept.fill_(1)
    assert float(kept[17, 3]) == 1  # it keeps what it held ...
    kept.fill_(2)  # ... and is nobody else's any more
    assert torch.equal(client.get("photo", verify="always"), torch.ones(256, 1024))
    with sluice.connect(directory=daemon.directory) as other:
        assert torch.equal(other.get("photo"), torch.ones(256, 1024))
    assert torch.equal(kept, torch.full((256, 1024), 2.0))


def test_tensor_kept_past_abandon_can_not_change_the_next_object(client: sluice.Client) -> None:
    kept = []
    for turn in range(5):
        reservation = reserved(client, f"given-up-{turn}")
        kept.append(reservation.tensor)
        reservation.abandon()
        reservation.abandon()
    for turn in range(40):  # more than the arena holds, so their memory is used again
        client.put(f"photo-{turn}", torch.full((256, 1024), float(turn)))
    for tensor in kept:
        tensor.fill_(-1)
    for turn in range(40):
        if client.lookup(f"photo-{turn}") == "present":
            expected = torch.full((256, 1024), float(turn))
            assert torch.equal(client.get(f"photo-{turn}", verify="always"), expected)


def test_dropped_reservation_is_abandoned(client: sluice.Client) -> None:
    reservation = reserved(client, "photo")
    kept = reservation.tensor
    del reservation
    gc.collect()
    assert client.put("photo", torch.ones(2), timeout=5) == "published"
    kept.fill_(9)
    assert client.get("photo").tolist() == [1, 1]


def test_ended_reservation_answers_detached(client: sluice.Client) -> None:
    reservation = reserved(client, "photo")
    assert reservation.publish() == "published"
    with pytest.raises(sluice.Detached, match="reserve the key again"):
        _ = reservation.tensor
    with pytest.raises(sluice.Detached):
        reservation.publish()
    with reservation:
        pass
    assert "ended: published" in repr(reservation)


def test_key_that_is_there_is_not_reserved_again(client: sluice.Client) -> None:
    client.put("photo", torch.zeros(256, 1024))
    assert client.reserve("photo", SPEC) is None
    with pytest.raises(sluice.Conflict):
        client.reserve("photo", ("float32", (2, 2)))


def test_key_of_another_writer_is_pending(client: sluice.Client, daemon: ArenaDaemon) -> None:
    with (
        sluice.connect(directory=daemon.directory) as other,
        reserved(other, "photo") as reservation,
    ):
        reservation.tensor.fill_(5)
        with pytest.raises(sluice.Pending, match="another writer"):
            client.reserve("photo", SPEC, timeout=0.2)
    assert client.lookup("photo") == "present"


def test_late_publish_is_refused(client: sluice.Client) -> None:
    reservation = client.reserve("photo", SPEC, write_timeout=0.001)
    assert reservation is not None
    tensor = reservation.tensor
    tensor.fill_(1)
    until(lambda: client.lookup("photo") != "pending", "the reservation expires")
    with pytest.raises(sluice.Expired):
        reservation.publish()
    assert client.lookup("photo") == "absent"
    tensor.fill_(2)
    client.put("photo", torch.full((256, 1024), 3.0))
    assert torch.equal(client.get("photo"), torch.full((256, 1024), 3.0))


def test_write_fills_from_any_contiguous_buffer(client: sluice.Client) -> None:
    key = sluice.ObjectKey.from_text("photo")
    writer = client.core.reserve(key, [("tensor", "uint8", (4,))])
    assert writer is not None
    with pytest.raises(sluice.InvalidArgument, match="3 bytes"):
        writer.write(None, b"abc")
    with writer:
        writer.write(None, b"abcd")
    assert bytes(client.get("photo").tolist()) == b"abcd"
