"""Producer: what is stored, when, and what a failure leaves behind."""

import pytest
import torch
from peer import Peer
from world import feature_of, item, request


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_feature_is_visible_as_writing_when_the_answer_goes_out(engine, arena, runner) -> None:
    producer = engine("ec_producer", runner=runner)
    peer = Peer(producer, arena.directory)
    queue = producer.worker.connector._worker._producer._queue
    held: list = []
    queue.put = lambda save: (held.append(save), True)[1]  # nothing is published meanwhile
    producer.serve(request("1", [item("A", 4, 20)]))
    assert producer.finished["1"].ec_transfer_params["A"]["state"] == "writing"
    assert peer.presence("A") == "pending"
    producer.worker.connector._worker._producer.finish(held.pop())
    assert peer.presence("A") == "present"
    peer.close()


def test_full_save_queue_publishes_in_the_step_and_loses_nothing(engine, arena) -> None:
    producer = engine("ec_producer", extra={"save_queue_items_max": 1})
    peer = Peer(producer, arena.directory)
    producer.worker.connector._worker._producer._queue.put = lambda save: False
    producer.serve(request("1", [item("A", 4, 20), item("B", 30, 20)]))
    answer = producer.finished["1"].ec_transfer_params
    assert {entry["state"] for entry in answer.values()} == {"published"}
    assert producer.counted("save_inline") == 2
    producer.await_count("saves", 2)
    peer.close()


def test_one_content_is_stored_once(engine, arena) -> None:
    producer = engine("ec_producer")
    peer = Peer(producer, arena.directory)
    twice = [item("A", 4, 20), item("A", 30, 20)]
    producer.serve(request("1", twice), request("2", [item("A", 4, 20)]))
    peer.wait_present("A")
    producer.await_count("saves", 1)
    assert producer.worker.encoded == ["A"]
    assert producer.finished["1"].ec_transfer_params["A"]["item_indices"] == [0, 1]
    peer.close()


def test_two_producers_of_one_content_leave_one_object(engine, arena) -> None:
    one, other = engine("ec_producer"), engine("ec_producer")
    peer = Peer(one, arena.directory)
    for world in (one, other):
        world.add(request("r", [item("A", 4, 20)]))
    plans = [world.scheduler.schedule() for world in (one, other)]  # both decide to encode
    for world, plan in zip((one, other), plans, strict=True):
        world.finish(plan)
    peer.wait_present("A")
    one.await_count("saves", 1)
    second = other.counted("save_duplicates") + other.counted("save_pending_elsewhere")
    assert second == 1
    peer.close()


def test_nonfinite_feature_is_refused_and_counted(engine, arena) -> None:
    producer = engine("ec_producer", extra={"scan_nonfinite": True})
    peer = Peer(producer, arena.directory)

    def encode(identifier: str, rows: int) -> torch.Tensor:
        out = feature_of(identifier, rows)
        if identifier == "bad":
            out[rows // 2, 3] = float("inf")
        return out

    producer.worker.encode = encode
    producer.serve(request("1", [item("bad", 4, 20), item("good", 30, 20)]))
    peer.wait_present("good")
    producer.await_count("save_nonfinite", 1)
    assert peer.presence("bad") == "absent"
    peer.close()


def test_failed_save_is_logged_once_per_cause_counted_and_never_reported_done(
    engine, arena, caplog
) -> None:
    import logging

    producer = engine("ec_producer")
    arena.kill()
    logging.getLogger("vllm").addHandler(caplog.handler)
    try:
        for name in "ABC":
            producer.serve(request(name, [item(name, 4, 20)]))
    finally:
        logging.getLogger("vllm").removeHandler(caplog.handler)
    assert producer.counted("save_failures") == 3
    assert len([r for r in caplog.records if "was not stored" in r.getMessage()]) == 1
    for name in "ABC":
        assert producer.finished[name].ec_transfer_params[name]["state"] == "absent"


def test_unexpected_shape_or_dtype_is_not_stored(engine, arena) -> None:
    producer = engine("ec_producer")
    peer = Peer(producer, arena.directory)
    wrong = {
        "rows": lambda rows: feature_of("rows", rows + 1)[:-1][1:],
        "dtype": lambda rows: feature_of("dtype", rows).float(),
    }
    meta = producer.connector._scheduler._producer._media
    worker = producer.worker.connector._worker._producer
    for name, make in wrong.items():
        worker.save(name, make(20), meta.save_spec(item(name, 4, 20)))
        assert peer.presence(name) == "absent"
    assert producer.counted("save_failures") == 2
    peer.close()


def test_soft_pin_is_set_for_the_chosen_modalities(engine, arena) -> None:
    producer = engine("ec_producer", extra={"soft_pin_modalities": ["video"]})
    peer = Peer(producer, arena.directory)
    producer.serve(
        request("1", [item("film", 4, 20, modality="video"), item("photo", 30, 20)]),
    )
    for name in ("film", "photo"):
        peer.wait_present(name)
    pinned = {entry["key"]: entry["soft_pinned_until_ns"] > 0 for entry in peer.client.list()}
    assert pinned == {peer.key("film").text: True, peer.key("photo").text: False}
    peer.close()


def test_save_of_a_strided_tensor_stores_its_elements(engine, arena) -> None:
    producer = engine("ec_producer")
    peer = Peer(producer, arena.directory)
    wide = feature_of("A", 20)
    strided = torch.stack([wide, wide + 1], dim=2)[:, :, 0]
    assert not strided.is_contiguous()
    spec = producer.connector._scheduler._producer._media.save_spec(item("A", 4, 20))
    producer.worker.connector._worker._producer.save("A", strided, spec)
    peer.wait_present("A")
    with peer.client.get(peer.key("A")) as lease:
        from sluice.vllm import tensors

        assert torch.equal(tensors.over(lease).clone(), wide)
    peer.close()


def test_shutdown_publishes_what_waits(engine, arena) -> None:
    producer = engine("ec_producer")
    peer = Peer(producer, arena.directory)
    names = [f"item{n}" for n in range(4)]
    for name in names:
        producer.serve(request(name, [item(name, 4, 20)]))
    producer.worker.connector.shutdown()
    assert [peer.presence(name) for name in names] == ["present"] * 4
    peer.close()
