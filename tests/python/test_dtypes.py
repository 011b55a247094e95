"""What goes in comes out: every dtype, from and to torch and numpy, byte for byte."""

import importlib.util
import math
from random import Random

import numpy
import pytest
import sluice
import torch

TORCH_DTYPES = [
    torch.float32,
    torch.float64,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.uint16,
    torch.int32,
    torch.uint32,
    torch.int64,
    torch.uint64,
    torch.bool,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]
NUMPY_DTYPES = [
    *("float32", "float64", "float16", "bool"),
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
]
SHAPES = [(), (1,), (7,), (3, 5), (2, 1, 2, 1, 2, 1, 2, 3)]


def random_bytes(count: int, kind: str, seed: int) -> bytearray:
    """Any bit pattern is a value of these dtypes, except of bool."""
    content = bytearray(Random(seed).randbytes(count))
    return bytearray(byte & 1 for byte in content) if "bool" in kind else content


def random_tensor(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    count = math.prod(shape) * dtype.itemsize
    content = random_bytes(count, str(dtype), seed)
    return torch.frombuffer(content, dtype=torch.uint8).clone().view(dtype).reshape(shape)


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
def test_torch_tensor_comes_back_as_it_went(
    shared_client: sluice.Client, dtype: torch.dtype, shape: tuple[int, ...], seed: int
) -> None:
    tensor = random_tensor(dtype, shape, seed)
    assert shared_client.put("tensor", tensor) == "published"
    back = shared_client.get("tensor")
    assert (back.dtype, tuple(back.shape), back.device.type) == (dtype, shape, "cpu")
    assert back.is_contiguous()
    assert raw(back) == raw(tensor)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_numpy_array_comes_back_as_it_went(
    shared_client: sluice.Client, dtype: str, shape: tuple[int, ...], seed: int
) -> None:
    size = math.prod(shape) * numpy.dtype(dtype).itemsize
    array = numpy.frombuffer(random_bytes(size, dtype, seed), dtype=dtype).reshape(shape)
    shared_client.put("array", array)
    back = shared_client.get("array", as_="numpy")
    assert (back.dtype, back.shape) == (array.dtype, shape)
    assert back.flags.c_contiguous
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_torch_and_numpy_read_each_other(
    shared_client: sluice.Client, dtype: str, seed: int
) -> None:
    array = numpy.frombuffer(random_bytes(480, dtype, seed), dtype=dtype)
    shared_client.put("array", array)
    assert raw(shared_client.get("array")) == array.tobytes()
    shared_client.put("tensor", torch.from_numpy(array.copy()))
    assert shared_client.get("tensor", as_="numpy").tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.bfloat16, "bfloat16"),
        (torch.float8_e4m3fn, "float8_e4m3"),
        (torch.float8_e5m2, "float8_e5m2"),
    ],
    ids=str,
)
def test_dtypes_that_numpy_lacks_are_had_from_ml_dtypes_or_refused_by_name(
    shared_client: sluice.Client, dtype: torch.dtype, name: str, seed: int
) -> None:
    tensor = random_tensor(dtype, (3, 4), seed)
    shared_client.put("tensor", tensor)
    if importlib.util.find_spec("ml_dtypes") is None:
        with pytest.raises(sluice.Unsupported, match=rf"{name}.*ml_dtypes.*as_='torch'"):
            shared_client.get("tensor", as_="numpy")
    else:
        back = shared_client.get("tensor", as_="numpy")
        assert back.dtype.name in {name, f"{name}fn"}
        assert back.tobytes() == raw(tensor)
        shared_client.put("again", back)
        assert raw(shared_client.get("again")) == raw(tensor)


def test_tensors_that_are_not_contiguous_are_put_as_they_look(shared_client: sluice.Client) -> None:
    base = torch.arange(24, dtype=torch.int32).reshape(4, 6)
    for name, view in {
        "transposed": base.T,
        "strided": base[::2, 1::2],
        "expanded": base[:, :1].expand(4, 5),
        "offset": base[2:],
    }.items():
        shared_client.put(name, view)
        assert torch.equal(shared_client.get(name), view), name
    array = numpy.arange(24, dtype=numpy.int16).reshape(4, 6)
    for name, part in {
        "fortran": numpy.asfortranarray(array),
        "reversed": array[::-1, ::-1],
        "column": array[:, 1],
    }.items():
        shared_client.put(name, part)
        assert numpy.array_equal(shared_client.get(name, as_="numpy"), part), name


def test_foreign_byte_order_and_negative_bit_keep_their_values(
    shared_client: sluice.Client,
) -> None:
    big = numpy.arange(5, dtype=">i4")
    shared_client.put("big", big)
    assert numpy.array_equal(shared_client.get("big", as_="numpy"), [0, 1, 2, 3, 4])
    negative = torch.imag(torch.complex(torch.zeros(3), torch.ones(3)).conj())
    assert negative.is_neg()
    shared_client.put("negative", negative)
    assert shared_client.get("negative").tolist() == [-1, -1, -1]


def test_tensor_that_needs_a_gradient_is_put_by_value(shared_client: sluice.Client) -> None:
    tensor = torch.ones(4, requires_grad=True)
    shared_client.put("leaf", tensor)
    back = shared_client.get("leaf")
    assert torch.equal(back, tensor.detach())
    assert not back.requires_grad
