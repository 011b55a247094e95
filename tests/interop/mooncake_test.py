"""Tensor objects between Sluice's codec and Mooncake Store's own client, both ways."""

from __future__ import annotations

import random
import struct
from math import prod
from pathlib import Path

import pytest
from interop_peers import MooncakePeer, ObjectTool

pytestmark = pytest.mark.peer

# Sluice's name, PyTorch's name, bytes per element: all that the header can say.
DTYPES = [
    ("float32", "float32", 4),
    ("float64", "float64", 8),
    ("int8", "int8", 1),
    ("uint8", "uint8", 1),
    ("int16", "int16", 2),
    ("uint16", "uint16", 2),
    ("int32", "int32", 4),
    ("uint32", "uint32", 4),
    ("int64", "int64", 8),
    ("uint64", "uint64", 8),
    ("bool", "bool", 1),
    ("float16", "float16", 2),
    ("bfloat16", "bfloat16", 2),
    ("float8_e4m3", "float8_e4m3fn", 1),
    ("float8_e5m2", "float8_e5m2", 1),
]
SHAPES: list[tuple[int, ...]] = [
    (),
    (5,),
    (2, 3),
    (1, 1, 7),
    (2, 1, 3, 2),
    (1, 2, 1, 2, 3),
    (2, 1, 2, 1, 2, 1),
    (1, 1, 2, 1, 2, 1, 3),
    (2, 1, 2, 1, 2, 1, 2, 3),
]
HEADER_BYTES = 304
SLUICE_DATA_OFFSET = 320


def some_elements(dtype: str, count: int, element_bytes: int) -> bytes:
    """Bytes that differ along the tensor; bools are 0 and 1 as everywhere."""
    pattern = random.Random(count).randbytes(count * element_bytes)
    return bytes(byte & 1 for byte in pattern) if dtype == "bool" else pattern


def as_mooncake_reads(shape: tuple[int, ...]) -> list[int]:
    """Its client gives a tensor without dimensions back as one of a single element."""
    return list(shape) or [1]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("dtype", "torch_dtype", "size"), DTYPES, ids=[d[0] for d in DTYPES])
def test_mooncakes_client_reads_what_sluice_wrote(
    codec: ObjectTool,
    mooncake: MooncakePeer,
    tmp_path: Path,
    dtype: str,
    torch_dtype: str,
    size: int,
    shape: tuple[int, ...],
) -> None:
    elements = some_elements(dtype, prod(shape), size)
    stored, fetched = tmp_path / "stored", tmp_path / "fetched"
    stored.write_bytes(codec.encode(dtype, shape, elements))
    key = f"from_sluice/{dtype}/{shape}"
    assert mooncake.ask("put_bytes", key, stored) == {"code": 0}
    said = mooncake.ask("get_tensor", key, fetched)
    assert said == {"dtype": torch_dtype, "shape": as_mooncake_reads(shape)}
    assert fetched.read_bytes() == elements


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("dtype", "torch_dtype", "size"), DTYPES, ids=[d[0] for d in DTYPES])
def test_sluice_reads_what_mooncakes_client_wrote(
    codec: ObjectTool,
    mooncake: MooncakePeer,
    tmp_path: Path,
    dtype: str,
    torch_dtype: str,
    size: int,
    shape: tuple[int, ...],
) -> None:
    elements = some_elements(dtype, prod(shape), size)
    source, fetched = tmp_path / "source", tmp_path / "fetched"
    source.write_bytes(elements)
    key = f"from_mooncake/{dtype}/{shape}"
    stored = mooncake.ask("put_tensor", key, source, dtype=torch_dtype, shape=list(shape))
    assert stored == {"code": 0}
    mooncake.ask("get_bytes", key, fetched)
    assert codec.decode(fetched.read_bytes()) == (dtype, shape, elements)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_both_write_the_same_header_but_for_where_elements_begin(
    codec: ObjectTool, mooncake: MooncakePeer, tmp_path: Path, shape: tuple[int, ...]
) -> None:
    elements = some_elements("bfloat16", prod(shape), 2)
    source, fetched = tmp_path / "source", tmp_path / "fetched"
    source.write_bytes(elements)
    key = f"same_header/{shape}"
    mooncake.ask("put_tensor", key, source, dtype="bfloat16", shape=list(shape))
    mooncake.ask("get_bytes", key, fetched)
    theirs, ours = fetched.read_bytes(), codec.encode("bfloat16", shape, elements)
    assert struct.unpack_from("<Q", theirs, 24) == (HEADER_BYTES,)
    assert struct.unpack_from("<Q", ours, 24) == (SLUICE_DATA_OFFSET,)
    assert theirs[:24] + theirs[32:HEADER_BYTES] == ours[:24] + ours[32:HEADER_BYTES]
    assert len(ours) - len(theirs) == SLUICE_DATA_OFFSET - HEADER_BYTES


def test_a_feature_of_a_realistic_size_goes_both_ways(
    codec: ObjectTool, mooncake: MooncakePeer, tmp_path: Path
) -> None:
    shape = (1000, 3584)
    elements = some_elements("bfloat16", prod(shape), 2)
    ours, theirs, fetched = tmp_path / "ours", tmp_path / "theirs", tmp_path / "fetched"
    ours.write_bytes(codec.encode("bfloat16", shape, elements))
    assert mooncake.ask("put_bytes", "large/ours", ours) == {"code": 0}
    said = mooncake.ask("get_tensor", "large/ours", fetched)
    assert said == {"dtype": "bfloat16", "shape": list(shape)}
    assert fetched.read_bytes() == elements
    theirs.write_bytes(elements)
    stored = mooncake.ask("put_tensor", "large/theirs", theirs, dtype="bfloat16", shape=shape)
    assert stored == {"code": 0}
    mooncake.ask("get_bytes", "large/theirs", fetched)
    assert codec.decode(fetched.read_bytes()) == ("bfloat16", shape, elements)


def test_both_refuse_bytes_behind_the_elements(
    codec: ObjectTool, mooncake: MooncakePeer, tmp_path: Path
) -> None:
    longer = codec.encode("int32", (2, 3), bytes(24)) + b"\0"
    stored = tmp_path / "stored"
    stored.write_bytes(longer)
    assert mooncake.ask("put_bytes", "longer", stored) == {"code": 0}
    assert mooncake.ask("get_tensor", "longer", tmp_path / "fetched") == {"dtype": None}
    assert "bytes follow" in codec.refusal(longer)


def test_a_foreign_object_without_elements_is_refused_with_that_reason(
    codec: ObjectTool, mooncake: MooncakePeer, tmp_path: Path
) -> None:
    source, fetched = tmp_path / "source", tmp_path / "fetched"
    source.write_bytes(b"")
    stored = mooncake.ask("put_tensor", "empty", source, dtype="float32", shape=[0, 4])
    assert stored == {"code": 0}
    mooncake.ask("get_bytes", "empty", fetched)
    assert "no elements" in codec.refusal(fetched.read_bytes())


# Each place that says whether the object is readable: offset, format, value.
DAMAGE = {
    "magic": (0, "<I", 0),
    "version": (4, "<H", 2),
    "header_size": (6, "<H", 320),
    "dtype": (8, "<i", 15),
    "ndim": (12, "<i", 9),
    "layout_kind": (16, "<I", 2),
    "data_offset": (24, "<Q", 8),
    "data_bytes": (32, "<Q", 20),
    "dimension beyond ndim": (40 + 2 * 8, "<q", 0),
    "axis_count": (168, "<I", 5),
}


@pytest.mark.parametrize("field", DAMAGE)
def test_sluice_refuses_every_header_that_mooncake_refuses(
    codec: ObjectTool, mooncake: MooncakePeer, tmp_path: Path, field: str
) -> None:
    damaged = bytearray(codec.encode("int32", (2, 3), bytes(24)))
    offset, layout, value = DAMAGE[field]
    struct.pack_into(layout, damaged, offset, value)
    stored = tmp_path / "stored"
    stored.write_bytes(damaged)
    key = f"damaged/{field}"
    assert mooncake.ask("put_bytes", key, stored) == {"code": 0}
    assert mooncake.ask("get_tensor", key, tmp_path / "fetched") == {"dtype": None}
    assert field in codec.refusal(bytes(damaged))
