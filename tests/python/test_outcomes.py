"""What a writer is told when it was not the first."""

import pytest
import sluice
import torch
from arena_daemon import ArenaDaemon


def test_same_object_twice_is_a_duplicate(client: sluice.Client) -> None:
    tensor = torch.arange(1000)
    assert client.put("photo", tensor) == "published"
    assert client.put("photo", tensor.clone()) == "duplicate"
    assert client.stats()["duplicates_total"] == 1


def test_other_content_is_counted_and_the_first_stays(client: sluice.Client) -> None:
    client.put("photo", torch.zeros(1000))
    assert client.put("photo", torch.ones(1000)) == "divergent_duplicate"
    assert torch.equal(client.get("photo"), torch.zeros(1000))
    assert client.stats()["divergent_duplicates_total"] == 1


@pytest.mark.parametrize("other", [torch.zeros(999), torch.zeros(1000, dtype=torch.int32)])
def test_other_shape_or_dtype_is_a_conflict(client: sluice.Client, other: torch.Tensor) -> None:
    client.put("photo", torch.zeros(1000))
    with pytest.raises(sluice.Conflict) as caught:
        client.put("photo", other)
    assert caught.value.code == "conflict"
    assert torch.equal(client.get("photo"), torch.zeros(1000))


def test_absent_pending_present(client: sluice.Client) -> None:
    assert client.lookup("photo") == "absent"
    with pytest.raises(sluice.NotFound, match="id:photo: no such object"):
        client.get("photo")
    reservation = client.reserve("photo", ("uint8", (8,)))
    assert reservation is not None
    assert client.lookup_many(["photo", "other"]) == ["pending", "absent"]
    with pytest.raises(sluice.Pending, match="wait for it"):
        client.get("photo")
    reservation.publish()
    assert client.lookup_many(["other", "photo"]) == ["absent", "present"]


def test_remove_and_invalidate(client: sluice.Client) -> None:
    for name in ("a", "b", "c"):
        client.put(name, torch.zeros(10))
    client.remove("a")
    assert client.lookup("a") == "absent"
    with pytest.raises(sluice.NotFound):
        client.remove("a")
    prefix = sluice.ObjectKey.from_text("b").prefix_text
    assert client.invalidate(prefix) == 2
    assert client.list() == []


def test_full_arena_of_held_objects_is_out_of_space(client: sluice.Client) -> None:
    held: list[torch.Tensor] = []

    def fill() -> None:
        for turn in range(20):
            client.put(f"photo-{turn}", torch.zeros(8 << 20, dtype=torch.uint8), timeout=0.3)
            held.append(client.get(f"photo-{turn}"))

    with pytest.raises(sluice.OutOfSpace, match="--size") as caught:
        fill()
    assert caught.value.code == "out_of_space"
    assert len(held) >= 6
    assert all(int(tensor.count_nonzero()) == 0 for tensor in held)
    held.clear()
    client.put("photo", torch.zeros(8 << 20, dtype=torch.uint8))


def test_hard_pin_keeps_an_object_until_it_is_unpinned(client: sluice.Client) -> None:
    big = torch.ones(24 << 20, dtype=torch.uint8)  # two fit into the arena, three do not
    client.put("first", big, pin="hard")
    client.put("second", big, pin="hard")
    with pytest.raises(sluice.OutOfSpace):
        client.put("third", big, timeout=0.2)
    assert client.lookup_many(["first", "second"]) == ["present", "present"]
    assert all(shown["hard_pinned"] for shown in client.list())
    client.unpin("first")
    assert client.put("third", big) == "published"
    assert client.lookup_many(["first", "second"]) == ["absent", "present"]


def test_soft_pin_is_listed_until_its_end(client: sluice.Client) -> None:
    client.put("photo", torch.ones(10), pin=60)
    assert client.list()[0]["soft_pinned_until_ns"] > 0
    client.unpin("photo")
    assert client.list()[0]["soft_pinned_until_ns"] == 0
    client.pin("photo", 60)
    assert client.list()[0]["soft_pinned_until_ns"] > 0
    client.pin("photo")
    assert client.list()[0]["hard_pinned"]


def test_list_and_stats_say_what_is_there(client: sluice.Client, daemon: ArenaDaemon) -> None:
    client.put("a", torch.zeros(1000, dtype=torch.uint8))
    client.put("b", torch.zeros(1000, dtype=torch.uint8), checksums=False)
    listed = {one["key"]: one for one in client.list()}
    assert set(listed) == {sluice.ObjectKey.from_text(name).text for name in "ab"}
    one = listed[sluice.ObjectKey.from_text("a").text]
    assert one["object_bytes"] >= 1304
    assert one["extent_bytes"] % 4096 == 0
    assert one["checksums"]
    assert not listed[sluice.ObjectKey.from_text("b").text]["checksums"]
    assert len(client.list(limit=1)) == 1
    stats = client.stats()
    assert stats["daemon_alive"]
    assert stats["daemon_pid"] == daemon.pid
    assert stats["objects"] == 2
    assert stats["kinds"]["encoder_output"]["objects"] == 2
    assert stats["arena_bytes"] == 64 << 20


def test_clients_show_label_and_counters(client: sluice.Client, daemon: ArenaDaemon) -> None:
    with sluice.connect(directory=daemon.directory, label="encoder 0") as other:
        other.core.post('{"role": "encoder"}')
        other.put("photo", torch.zeros(1000))
        other.get("photo")
        [shown] = [one for one in client.clients() if one["label"] == "encoder 0"]
        assert shown["board"] == '{"role": "encoder"}'
        assert (shown["puts"], shown["gets"], shown["corrupt"]) == (1, 1, 0)
        assert shown["alive"]
