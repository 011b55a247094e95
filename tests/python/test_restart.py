"""The daemon may die at any time: what was got stays, reading goes on, and the next put finds the
new one.
"""

import concurrent.futures
import time

import pytest
import sluice
import torch
from arena_daemon import ArenaDaemon
from waiting import until


def test_leases_and_look_ups_outlive_the_daemon(client: sluice.Client, daemon: ArenaDaemon) -> None:
    original = torch.arange(500_000)
    client.put("photo", original)
    tensor = client.get("photo")
    daemon.kill()
    assert torch.equal(tensor, original)
    assert client.lookup("photo") == "present"
    assert torch.equal(client.get("photo"), original)
    assert not client.attached
    daemon.start()
    assert torch.equal(tensor, original)


def test_put_without_a_daemon_ends_at_its_deadline(
    client: sluice.Client, daemon: ArenaDaemon
) -> None:
    daemon.kill()
    begin = time.monotonic()
    with pytest.raises(sluice.Unavailable, match="sluiced"):
        client.put("photo", torch.zeros(10), timeout=0.3)
    with pytest.raises(sluice.Unavailable):
        client.remove("photo", timeout=0.3)
    assert time.monotonic() - begin < 20
    assert client.wait("photo", timeout=0.05) == ["absent"]


def test_a_daemon_that_is_not_run_in_time_may_answer_a_moment_after_the_deadline(
    client: sluice.Client, daemon: ArenaDaemon
) -> None:
    client.put("photo", torch.zeros(10))
    daemon.pause()
    timeout = 0.05

    def remove() -> float:
        asked = time.monotonic()
        client.remove("photo", timeout=timeout)
        return time.monotonic() - asked

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        took = pool.submit(remove)
        begin = time.monotonic()
        until(lambda: time.monotonic() > begin + 3 * timeout, "the deadline has passed")
        assert not took.done()
        daemon.resume()
        assert took.result(20) > timeout
    assert client.lookup("photo") == "absent"


def test_a_daemon_that_stands_still_is_waited_for_beyond_a_deadline_only_once(
    client: sluice.Client, daemon: ArenaDaemon
) -> None:
    client.put("photo", torch.zeros(10))
    daemon.pause()
    begin = time.monotonic()
    for _ in range(20):  # not a second each
        with pytest.raises(sluice.TimedOut):
            client.remove("photo", timeout=0.01)
    assert time.monotonic() - begin < 10
    daemon.resume()
    assert client.put("other", torch.zeros(10)) == "published"


def test_next_put_attaches_again_by_itself(client: sluice.Client, daemon: ArenaDaemon) -> None:
    client.put("before", torch.ones(1000))
    tensor = client.get("before")
    for turn in range(3):
        daemon.kill()
        daemon.start()
        assert client.put(f"after-{turn}", torch.full((1000,), turn), timeout=20) == "published"
        assert client.attached
    assert torch.equal(client.get("before"), torch.ones(1000))
    assert torch.equal(tensor, torch.ones(1000))
    for turn in range(3):
        assert int(client.get(f"after-{turn}")[0]) == turn
    assert client.stats()["epoch"] == 4


def test_reservation_outlives_the_daemon(client: sluice.Client, daemon: ArenaDaemon) -> None:
    reservation = client.reserve("photo", ("int64", (1000,)))
    assert reservation is not None
    reservation.tensor[:500] = 1
    daemon.kill()
    reservation.tensor[500:] = 2
    daemon.start()
    assert client.lookup("photo") == "pending"
    assert reservation.publish() == "published"
    assert client.get("photo").sum() == 1500


def test_held_object_survives_restart_under_pressure(
    client: sluice.Client, daemon: ArenaDaemon
) -> None:
    original = torch.arange(1_000_000)
    client.put("photo", original)
    tensor = client.get("photo")
    daemon.kill()
    daemon.start()
    client.remove("photo")
    for turn in range(20):
        client.put(f"filler-{turn}", torch.full((1_000_000,), turn))
    assert torch.equal(tensor, original)


def test_client_follows_an_arena_that_was_made_anew(
    client: sluice.Client, daemon: ArenaDaemon
) -> None:
    client.put("photo", torch.ones(10))
    tensor = client.get("photo")
    boot = client.stats()["boot"]
    daemon.stop()
    daemon.start()
    assert client.put("other", torch.zeros(10), timeout=20) == "published"
    assert client.stats()["boot"] != boot
    assert client.lookup("photo") == "absent"
    assert torch.equal(tensor, torch.ones(10))
