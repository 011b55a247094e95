"""A fork's child has none of its parent's handles; it connects anew, and the parent does not
notice.
"""

import os
import traceback
from collections.abc import Callable

import pytest
import sluice
import torch
from arena_daemon import ArenaDaemon
from test_bad_input import USES


def in_child(work: Callable[[], object]) -> str:
    """Runs `work` in a forked child; the text of what it raised, empty when it raised nothing."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reading)
            with os.fdopen(writing, "w") as out:
                try:
                    work()
                except BaseException:
                    out.write(traceback.format_exc())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    assert os.waitpid(pid, 0)[1] == 0, f"the child crashed: {text}"
    return text


@pytest.mark.parametrize("name", USES)
def test_parents_client_answers_detached_in_the_child(client: sluice.Client, name: str) -> None:
    client.put("k", torch.zeros(10))

    def use() -> None:
        with pytest.raises(sluice.Detached):
            USES[name](client)

    assert in_child(use) == ""
    assert torch.equal(client.get("k"), torch.zeros(10))


def test_child_connects_anew_and_parent_goes_on(client: sluice.Client, daemon: ArenaDaemon) -> None:
    client.put("before", torch.arange(1000))
    tensor = client.get("before")

    def work() -> None:
        assert not client.attached
        with sluice.connect(directory=daemon.directory) as own:
            assert torch.equal(own.get("before"), torch.arange(1000))
            own.put("from the child", torch.ones(3))

    assert in_child(work) == ""
    assert client.get("from the child").tolist() == [1, 1, 1]
    assert torch.equal(tensor, torch.arange(1000))
    assert client.put("after", torch.zeros(2)) == "published"


def test_child_drops_what_it_inherited_without_harm(client: sluice.Client) -> None:
    client.put("photo", torch.arange(100_000))
    things: dict[str, object] = {
        "tensor": client.get("photo"),
        "bundle": client.get_bundle("photo"),
        "lease": client.core.get(sluice.ObjectKey.from_text("photo")),
    }
    reservation = client.reserve("other", ("float32", (100_000,)))
    assert reservation is not None
    mine = reservation.tensor
    things["reservation"] = reservation
    fresh = client.reserve("third", ("float32", (1000,)))
    assert fresh is not None

    def work() -> None:
        lease = things["lease"]
        with pytest.raises(sluice.Detached):
            lease.tensors  # type: ignore[attr-defined]  # noqa: B018
        with pytest.raises(sluice.Detached):
            things["reservation"].publish()  # type: ignore[attr-defined]
        with pytest.raises(sluice.Detached):
            _ = fresh.tensor
        things.clear()
        client.close()

    assert in_child(work) == ""
    assert client.lookup("other") == "pending"
    mine.fill_(4)
    assert reservation.publish() == "published"
    assert torch.equal(client.get("other"), torch.full((100_000,), 4.0))
    assert torch.equal(client.get("photo"), torch.arange(100_000))
