"""Writes the golden files of Sluice's own formats from the tables in docs/formats.

A second, independent implementation of the tables, without Sluice's codec: run it only to add a
case. Files that are there already must not change, since stored objects would no longer be
readable. The mooncake_*.hex files beside it come from Mooncake's own client.
"""

from __future__ import annotations

import struct
from pathlib import Path

HERE = Path(__file__).parent
DTYPES = {"float32": (0, 4), "int64": (8, 8), "bfloat16": (12, 2), "float8_e5m2": (14, 1)}
ELEMENTS_AT = 320
ALIGN = 64


def header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """The 304-byte header of a full tensor whose elements begin 320 bytes into its object."""
    number, size = DTYPES[dtype]
    data_bytes = size
    for dim in shape:
        data_bytes *= dim
    dims = struct.pack("<8q", *shape, *[-1] * (8 - len(shape)))
    head = struct.pack(
        "<IHHiiIIQQ", 0x4D4F4F4E, 1, 304, number, len(shape), 0, 0, ELEMENTS_AT, data_bytes
    )
    return head + dims + dims + struct.pack("<II", 0, 0) + bytes(4 * 32)


def tensor_object(dtype: str, shape: tuple[int, ...], elements: bytes) -> bytes:
    """Header, zeros up to the elements, elements."""
    return header(dtype, shape).ljust(ELEMENTS_AT, b"\0") + elements


def entry(kind: int, name: str, value: bytes) -> bytes:
    """One attribute."""
    return struct.pack("<BBH", kind, len(name.encode()), len(value)) + name.encode() + value


def attributes(entries: list[bytes]) -> bytes:
    """The encoding of entries that are already in order."""
    return struct.pack("<HH", 1, len(entries)) + b"".join(entries)


def write(name: str, comment: str, content: bytes) -> None:
    """32 bytes a line."""
    lines = [content[at : at + 32].hex() for at in range(0, len(content), 32)]
    (HERE / name).write_text("\n".join([f"# {comment}", *lines]) + "\n")


def main() -> None:
    """All cases."""
    write("header_f32_2x3.hex", "header: float32 [2, 3]", header("float32", (2, 3)))
    write("header_i64_scalar.hex", "header: int64 []", header("int64", ()))
    write(
        "header_bf16_8d.hex",
        "header: bfloat16 [1, 2, 3, 4, 5, 6, 7, 8]",
        header("bfloat16", (1, 2, 3, 4, 5, 6, 7, 8)),
    )

    user = [
        entry(2, "scale", struct.pack("<2d", 0.5, -3.25)),
        entry(1, "image_grid_thw", struct.pack("<3q", 1, 24, -32)),
        entry(3, "modality", "imäge".encode()),
        entry(3, "empty", b""),
    ]
    user.sort(key=lambda e: e[4 : 4 + e[1]])
    write(
        "attributes_user.hex",
        "attributes: empty, image_grid_thw, modality, scale",
        attributes(user),
    )

    first = tensor_object("bfloat16", (2, 3), bytes(range(12)))
    second_at = -(-len(first) // ALIGN) * ALIGN
    second = tensor_object("float8_e5m2", (5,), bytes(range(100, 105)))
    write(
        "bundle_object.hex",
        "bundle: last_hidden_state bfloat16 [2, 3], deepstack.0 float8_e5m2 [5]",
        first.ljust(second_at, b"\0") + second,
    )
    listing = b"".join(
        struct.pack("<QB", offset, len(name)) + name.encode()
        for name, offset in (("last_hidden_state", 0), ("deepstack.0", second_at))
    )
    grid = entry(1, "image_grid_thw", struct.pack("<3q", 1, 24, 32))
    write(
        "bundle_attributes.hex",
        "bundle: image_grid_thw and the listing",
        attributes([grid, entry(4, "sluice.tensors", listing)]),
    )


if __name__ == "__main__":
    main()
