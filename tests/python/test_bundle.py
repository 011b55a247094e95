"""Several tensors and their attributes under one key, published and leased together."""

import pickle
from typing import TYPE_CHECKING

import pytest
import sluice
import torch
from sluice.torch_support import as_tensor

if TYPE_CHECKING:
    from sluice._core import AttributeInput

TENSORS = {
    "hidden": torch.arange(12, dtype=torch.float32).reshape(3, 4).to(torch.bfloat16),
    "deepstack.0": torch.arange(7, dtype=torch.int64),
    "mask": torch.tensor([True, False]),
}
ATTRIBUTES: dict[str, "AttributeInput"] = {
    "modality": "image",
    "image_grid_thw": [1, 24, 32],
    "scale": [0.5, -1.0],
    "rows": 3,
    "weight": 2.5,
    "pair": (4, 5),
    "none of it": [],
}


@pytest.fixture
def bundle(shared_client: sluice.Client) -> sluice.Bundle[torch.Tensor]:
    shared_client.put("photo", TENSORS, attributes=ATTRIBUTES)
    return shared_client.get_bundle("photo")


def test_all_tensors_come_back_in_their_order(bundle: sluice.Bundle[torch.Tensor]) -> None:
    assert list(bundle) == list(TENSORS)
    assert len(bundle) == 3
    for name, tensor in TENSORS.items():
        assert torch.equal(bundle[name], tensor)
    assert "mask" in bundle
    assert "other" not in bundle
    with pytest.raises(KeyError):
        bundle["other"]


def test_attributes_come_back_as_text_and_lists(bundle: sluice.Bundle[torch.Tensor]) -> None:
    assert bundle.attributes == {
        "modality": "image",
        "image_grid_thw": [1, 24, 32],
        "scale": [0.5, -1.0],
        "rows": [3],
        "weight": [2.5],
        "pair": [4, 5],
        "none of it": [],
    }


def test_one_tensor_of_several_is_got_by_name(shared_client: sluice.Client) -> None:
    shared_client.put("photo", TENSORS)
    assert torch.equal(shared_client.get("photo", name="mask"), TENSORS["mask"])
    assert shared_client.get("photo", name="deepstack.0", as_="numpy").tolist() == list(range(7))
    with pytest.raises(sluice.InvalidArgument, match=r"3 tensors; name one of 'hidden'"):
        shared_client.get("photo")
    with pytest.raises(sluice.InvalidArgument, match=r"no tensor 'other'; it holds 'hidden'"):
        shared_client.get("photo", name="other")


def test_closing_keeps_tensors_that_were_taken(bundle: sluice.Bundle[torch.Tensor]) -> None:
    mask = bundle["mask"]
    with bundle:
        pass
    assert torch.equal(mask, TENSORS["mask"])
    with pytest.raises(sluice.Detached, match="closed"):
        bundle["hidden"]
    assert repr(bundle) == "<sluice.Bundle closed>"
    bundle.close()


def test_repr_names_tensors(bundle: sluice.Bundle[torch.Tensor]) -> None:
    assert "hidden: bfloat16[3, 4]" in repr(bundle)
    assert "7 attributes" in repr(bundle)


def test_numpy_bundle(shared_client: sluice.Client) -> None:
    shared_client.put("photo", {"a": TENSORS["mask"], "b": TENSORS["deepstack.0"]})
    with shared_client.get_bundle("photo", as_="numpy") as bundle:
        assert bundle["a"].tolist() == [True, False]
        assert bundle.nbytes > 2 * 304


def test_descriptor_is_adopted_while_the_giver_holds_on(
    shared_client: sluice.Client, bundle: sluice.Bundle[torch.Tensor]
) -> None:
    descriptor = pickle.loads(pickle.dumps(bundle.descriptor))  # noqa: S301 - our own bytes
    assert descriptor == bundle.descriptor
    shared_client.remove("photo")
    lease = shared_client.core.adopt(descriptor)
    assert lease.attributes["modality"] == "image"
    assert torch.equal(as_tensor(lease.array("mask")), TENSORS["mask"])
    wrong = type(descriptor)(*descriptor.to_tuple()[:-1], descriptor.object_bytes + 1)
    with pytest.raises(sluice.InvalidArgument):
        shared_client.core.adopt(wrong)
