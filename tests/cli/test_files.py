"""`put`, `get`, `ls`, `stat`, `rm`: files of tensors go in and come out byte for byte."""

from pathlib import Path

import numpy as np
import pytest
import torch
from programs import Sluice
from safetensors.torch import load_file, save_file

NUMPY_DTYPES = ["f4", "f8", "f2", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"]


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_a_npy_file_comes_back_equal(sluice: Sluice, tmp_path: Path, dtype: str) -> None:
    array = np.arange(60).reshape(3, 4, 5).astype(dtype)
    np.save(tmp_path / "in.npy", array)
    sluice("put", "array", tmp_path / "in.npy")
    sluice("get", "array", tmp_path / "out.npy")
    back = np.load(tmp_path / "out.npy", allow_pickle=False)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (2, 2, 2, 2, 2)])
def test_every_rank_survives(sluice: Sluice, tmp_path: Path, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, dtype="<f4")
    np.save(tmp_path / "in.npy", array)
    sluice("put", "array", tmp_path / "in.npy")
    sluice("get", "array", tmp_path / "out.npy")
    assert np.load(tmp_path / "out.npy").shape == shape


def test_a_safetensors_file_with_several_tensors_comes_back_equal(
    sluice: Sluice, tmp_path: Path
) -> None:
    tensors = {
        "hidden": torch.randn(10, 8).bfloat16(),
        "deepstack.0": torch.randn(10, 8),
        "small": torch.ones(3, dtype=torch.float8_e4m3fn),
        "mask": torch.tensor([True, False]),
    }
    save_file(tensors, tmp_path / "in.safetensors", metadata={"modality": "image"})
    sluice("put", "bundle", tmp_path / "in.safetensors")
    sluice("get", "bundle", tmp_path / "out.safetensors")
    back = load_file(tmp_path / "out.safetensors")
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype
        assert torch.equal(back[name].view(torch.uint8), tensor.view(torch.uint8))
    assert sluice("stat", "bundle", "--json").json()["attributes"] == {"modality": "image"}


def test_one_tensor_of_several_is_chosen_by_name(sluice: Sluice, tmp_path: Path) -> None:
    tensors = {"first": torch.zeros(4), "second": torch.ones(4)}
    save_file(tensors, tmp_path / "in.safetensors")
    sluice("put", "both", tmp_path / "in.safetensors")
    refused = sluice("get", "both", tmp_path / "out.npy", code=1)
    assert "--tensor" in refused.err
    sluice("get", "both", tmp_path / "out.npy", "--tensor", "second")
    assert np.array_equal(np.load(tmp_path / "out.npy"), np.ones(4, dtype="f4"))
    wrong = sluice("get", "both", tmp_path / "x.npy", "--tensor", "secnd", code=1)
    assert "did you mean 'second'" in wrong.err
    sluice("put", "one", tmp_path / "in.safetensors", "--tensor", "first")
    assert [t["shape"] for t in sluice("stat", "one", "--json").json()["tensors"]] == [[4]]


def test_files_pass_through_pipes(sluice: Sluice, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.arange(1000, dtype="<i4"))
    content = (tmp_path / "in.npy").read_bytes()
    sluice("put", "piped", "-", stdin=content)
    assert sluice("get", "piped", "-", "--format", "npy").out == content
    assert sluice("get", "piped", "-", "--format", "raw").out == content[-4000:]


def test_a_second_put_of_the_same_is_a_duplicate_and_says_so(
    sluice: Sluice, tmp_path: Path
) -> None:
    np.save(tmp_path / "in.npy", np.ones(10))
    assert sluice("put", "k", tmp_path / "in.npy", "--json").json()["outcome"] == "published"
    assert sluice("put", "k", tmp_path / "in.npy", "--json").json()["outcome"] == "duplicate"
    np.save(tmp_path / "other.npy", np.ones(11))
    assert "k" in sluice("put", "k", tmp_path / "other.npy", code=1).err


def test_listing_and_removing_by_name_and_prefix(sluice: Sluice, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.ones(10))
    for name in ["cat-1", "cat-2", "dog-1"]:
        sluice("put", name, tmp_path / "in.npy")
    assert sorted(sluice("ls").lines) == ["cat-1", "cat-2", "dog-1"]
    assert sorted(sluice("ls", "cat").lines) == ["cat-1", "cat-2"]
    assert len(sluice("ls", "--limit", "2").lines) == 2
    sluice("rm", "cat-1")
    assert sorted(sluice("ls").lines) == ["cat-2", "dog-1"]
    assert sluice("rm", "--prefix", "cat", "--json").json()["removed"] == 1
    assert sluice("ls").lines == ["dog-1"]


def test_pins_are_shown(sluice: Sluice, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.ones(10))
    sluice("put", "hard", tmp_path / "in.npy", "--pin")
    sluice("put", "soft", tmp_path / "in.npy", "--soft-pin", "1h")
    sluice("put", "none", tmp_path / "in.npy")
    pins = {line.split()[-1]: line for line in sluice("ls", "-l").lines[1:]}
    assert " hard " in pins["hard"]
    assert " soft " in pins["soft"]
    assert " - " in pins["none"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.npy", b"", "neither"),
        ("text.npy", b"hello, world, this is no tensor", "neither"),
        ("short.npy", b"\x93NUMPY\x01\x00", "ends inside"),
        ("long.safetensors", b"\xff\xff\xff\x00\x00\x00\x00\x00{", "ends inside"),
    ],
)
def test_a_broken_file_is_refused_and_nothing_is_stored(
    sluice: Sluice, tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    refused = sluice("put", "k", tmp_path / name, code=1)
    assert reason in refused.err
    assert name in refused.err
    assert sluice("ls").lines == []


def test_a_tensor_without_elements_is_refused(sluice: Sluice, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.ones((0, 3)))
    assert "no elements" in sluice("put", "k", tmp_path / "in.npy", code=1).err
    assert sluice("ls").lines == []


def test_a_pickle_is_never_loaded(sluice: Sluice, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "pickle" in sluice("put", "k", tmp_path / "in.npy", code=1).err
    assert sluice("ls").lines == []


def test_what_numpy_cannot_hold_is_refused_with_the_way_out(sluice: Sluice, tmp_path: Path) -> None:
    save_file({"t": torch.ones(4).bfloat16()}, tmp_path / "in.safetensors")
    sluice("put", "bf", tmp_path / "in.safetensors")
    assert "safetensors" in sluice("get", "bf", tmp_path / "out.npy", code=1).err
    assert not (tmp_path / "out.npy").exists()
    assert "--format" in sluice("get", "bf", tmp_path / "out.bin", code=1).err


def test_an_unwritable_place_leaves_nothing_behind(sluice: Sluice, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.ones(10))
    sluice("put", "k", tmp_path / "in.npy")
    refused = sluice("get", "k", tmp_path / "missing" / "out.npy", code=1)
    assert "No such file" in refused.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.npy"]
