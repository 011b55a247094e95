"""A tensor that was got is the arena's memory, private to its process, and holds it as long as it
lives.
"""

import gc
import os
from pathlib import Path

import numpy
import pytest
import sluice
import torch
from arena_daemon import ArenaDaemon
from sluice.torch_support import as_tensor

PAGE = 4096


def file_mapped_at(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, *_, name = line.split(maxsplit=5)
        first, last = (int(part, 16) for part in span.split("-"))
        if first <= address < last:
            return name
    raise AssertionError(f"{address:#x} is not mapped")


def held(client: sluice.Client) -> int:
    """Leases of this process, read from its page in the arena."""
    return sum(one["leases"] for one in client.clients() if one["pid"] == os.getpid())


def test_get_copies_nothing(client: sluice.Client, daemon: ArenaDaemon) -> None:
    client.put("photo", torch.arange(10_000, dtype=torch.int32))
    tensor = client.get("photo")
    array = client.get("photo", as_="numpy")
    for address in (tensor.data_ptr(), array.__array_interface__["data"][0]):
        assert file_mapped_at(address).startswith(daemon.directory)
    lease = client.core.get(sluice.ObjectKey.from_text("photo"))
    assert file_mapped_at(lease.array(shared=True).address).startswith(daemon.directory)


def test_stray_write_stays_in_its_process_and_ends_with_its_lease(
    client: sluice.Client, daemon: ArenaDaemon
) -> None:
    original = torch.arange(5 * PAGE, dtype=torch.int32)
    client.put("photo", original)
    with sluice.connect(directory=daemon.directory) as other:
        mine, theirs = client.get("photo"), other.get("photo")
        mine.fill_(-1)
        assert torch.equal(theirs, original)
        assert torch.equal(other.get("photo"), original)
        shared = client.core.get(sluice.ObjectKey.from_text("photo")).array(shared=True)
        assert bytes(memoryview(shared)) == original.numpy().tobytes()
        del shared
        assert int(mine[0]) == -1
        del mine
        gc.collect()
        assert torch.equal(client.get("photo"), original)


def test_stale_private_page_never_shows_inside_the_next_object(client: sluice.Client) -> None:
    for turn in range(20):
        name = f"photo-{turn}"
        original = torch.full((3 * PAGE,), turn, dtype=torch.int32)
        client.put(name, original)
        tensor = client.get(name)
        assert torch.equal(tensor, original), turn
        tensor.fill_(-1)
        del tensor
        client.remove(name)


def test_shared_array_is_read_only(client: sluice.Client) -> None:
    client.put("photo", torch.zeros(4))
    array = client.core.get(sluice.ObjectKey.from_text("photo")).array(shared=True)
    assert array.readonly
    assert memoryview(array).readonly
    view = numpy.asarray(array)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_tensor_outlives_object_bundle_and_client(
    client: sluice.Client, daemon: ArenaDaemon
) -> None:
    original = torch.arange(100_000)
    client.put("photo", original)
    reader = sluice.connect(directory=daemon.directory)
    with reader.get_bundle("photo") as bundle:
        tensor = bundle["tensor"]
    reader.close()
    del reader, bundle
    gc.collect()
    client.remove("photo")
    for turn in range(20):  # whatever is free by now is written to
        client.put(f"filler-{turn}", torch.full((500_000,), turn))
        client.remove(f"filler-{turn}")
    assert torch.equal(tensor, original)


def test_garbage_collection_returns_leases(client: sluice.Client) -> None:
    client.put("photo", torch.zeros(100))
    assert held(client) == 0
    tensors = [client.get("photo") for _ in range(50)]
    assert held(client) == 50
    part = tensors[7][3:5]  # a view of a view
    del tensors
    gc.collect()
    assert held(client) == 1
    del part
    bundle: sluice.Bundle[torch.Tensor] = client.get_bundle("photo")
    cycle: list[object] = [bundle, bundle["tensor"]]
    cycle.append(cycle)
    assert held(client) == 1
    del cycle, bundle
    gc.collect()
    assert held(client) == 0


def test_capsule_that_nobody_takes_returns_its_lease(client: sluice.Client) -> None:
    client.put("photo", torch.zeros(100))
    capsule = client.core.get_dlpack(sluice.ObjectKey.from_text("photo"))
    assert held(client) == 1
    del capsule
    assert held(client) == 0


def test_release_is_refused_while_tensors_live(client: sluice.Client) -> None:
    client.put("photo", torch.arange(4))
    lease = client.core.get(sluice.ObjectKey.from_text("photo"))
    tensor = as_tensor(lease.array())
    assert lease.live_views >= 1
    with pytest.raises(sluice.InvalidArgument, match="delete them first"):
        lease.release()
    assert tensor.tolist() == [0, 1, 2, 3]
    del tensor
    gc.collect()
    lease.release()
    assert held(client) == 0
    lease.release()
    with pytest.raises(sluice.Detached, match="get the object again"):
        lease.array()


def test_held_object_is_not_evicted(client: sluice.Client) -> None:
    original = torch.arange(1_000_000)
    client.put("held", original)
    tensor = client.get("held")
    for turn in range(30):  # 240 MB through an arena of 64 MiB
        client.put(f"filler-{turn}", torch.full((1_000_000,), turn))
    assert client.lookup("filler-0") == "absent"
    assert client.lookup("held") == "present"
    assert torch.equal(tensor, original)


def test_corrupt_bytes_are_refused_and_named(client: sluice.Client, daemon: ArenaDaemon) -> None:
    original = torch.arange(300_000, dtype=torch.int32)
    client.put("photo", original)
    flip_bit_of(daemon, original.numpy().tobytes())
    with pytest.raises(sluice.Corrupt, match=r"id:photo: chunk 2"):
        client.get("photo")
    with pytest.raises(sluice.Corrupt):
        client.get_bundle("photo")
    assert client.get("photo", verify="never").shape == original.shape
    assert held(client) == 0


def flip_bit_of(daemon: ArenaDaemon, payload: bytes) -> None:
    """Damages the arena as a failing memory chip would: one bit, behind everybody's back."""
    for path in Path(daemon.directory).iterdir():
        if not path.is_file() or (at := path.read_bytes().find(payload)) < 0:
            continue
        with path.open("r+b") as file:
            file.seek(at + len(payload) // 2)
            byte = file.read(1)[0]
            file.seek(at + len(payload) // 2)
            file.write(bytes([byte ^ 0x10]))
        return
    raise AssertionError("the payload is in no file of the arena")


def test_verify_once_checks_the_first_get_only(client: sluice.Client, daemon: ArenaDaemon) -> None:
    original = torch.arange(300_000, dtype=torch.int32)
    client.put("photo", original)
    del_me = client.get("photo")
    del del_me
    flip_bit_of(daemon, original.numpy().tobytes())
    assert client.get("photo").shape == original.shape
    with pytest.raises(sluice.Corrupt):
        client.get("photo", verify="always")
    with (
        sluice.connect(directory=daemon.directory) as other,
        pytest.raises(sluice.Corrupt),
    ):
        other.get("photo")
