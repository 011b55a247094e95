"""Tensors of a device reach the arena through its memory kind."""

import pytest
import sluice
import torch
from sluice import _core, torch_support
from waiting import until


def test_device_tensor_is_copied_straight_into_the_reservation(
    shared_client: sluice.Client,
) -> None:
    tensor = torch.arange(100_000, dtype=torch.int32)
    key = sluice.ObjectKey.from_text("photo")
    writer = shared_client.core.reserve(key, [("tensor", "int32", (100_000,))])
    assert writer is not None
    with writer:
        writer.copy_from(None, _core.Device.host(), tensor.data_ptr())
    assert torch.equal(shared_client.get("photo"), tensor)


def test_tensor_is_copied_to_a_device_under_its_lease(shared_client: sluice.Client) -> None:
    tensor = torch.arange(100_000, dtype=torch.int32)
    shared_client.put("photo", tensor)
    lease = shared_client.core.get(sluice.ObjectKey.from_text("photo"))
    target = torch.zeros(100_000, dtype=torch.int32)
    device = _core.Device.host()
    copy = lease.copy_to(None, device, target.data_ptr())
    assert lease.live_views == 1
    copy.wait()
    device.synchronise()
    assert copy.done
    assert torch.equal(target, tensor)
    del copy
    lease.release()


def test_failed_device_copy_is_an_error_and_publishes_nothing(shared_client: sluice.Client) -> None:
    key = sluice.ObjectKey.from_text("photo")
    writer = shared_client.core.reserve(key, [("tensor", "int32", (10,))])
    assert writer is not None
    with pytest.raises(sluice.InvalidArgument, match="null pointer"), writer:
        writer.copy_from(None, _core.Device.host(), 0)
    until(lambda: shared_client.lookup("photo") == "absent", "the daemon hears of the end")


def test_framework_stages_a_device_that_this_build_does_not_know(
    shared_client: sluice.Client,
) -> None:
    tensor = torch.arange(12).reshape(3, 4)
    key = sluice.ObjectKey.from_text("photo")
    writer = shared_client.core.reserve(key, [("tensor", "int64", (3, 4))])
    assert writer is not None
    with writer:
        torch_support.copy_from_device("tensor", tensor, writer)
    assert torch.equal(shared_client.get("photo"), tensor)


def test_build_without_cuda_has_no_cuda_device() -> None:
    assert not hasattr(_core.Device, "cuda")
    assert repr(_core.Device.host()) == "<sluice.Device host>"
