#include "tensor/object_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>

#include "base/check.h"
#include "base/checked.h"
#include "tensor/tensor_spec.h"

namespace sluice::tensor {
namespace {

constexpr std::uint32_t kMagic = 0x4D4F4F4E;
constexpr std::uint16_t kVersionNumber = 1;
constexpr std::uint32_t kLayoutFull = 0;
constexpr std::uint32_t kLayoutShard = 1;
constexpr std::int64_t kUnusedDim = -1;

struct WireAxis {
  std::int32_t kind, axis_index, shard_rank, shard_count, split_dim, reserved0;
  std::int64_t reserved1;
};

struct WireHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_size;
  std::int32_t dtype;
  std::int32_t ndim;
  std::uint32_t layout_kind;
  std::uint32_t reserved0;
  std::uint64_t data_offset;
  std::uint64_t data_bytes;
  std::array<std::int64_t, kDimsMax> global_shape;
  std::array<std::int64_t, kDimsMax> local_shape;
  std::uint32_t axis_count;
  std::uint32_t reserved1;
  std::array<WireAxis, 4> axes;
};

static_assert(std::endian::native == std::endian::little);
static_assert(std::is_trivially_copyable_v<WireHeader>);
static_assert(std::has_unique_object_representations_v<WireHeader>);  // no padding
static_assert(sizeof(WireAxis) == 32);
static_assert(sizeof(WireHeader) == kHeaderBytes);
static_assert(offsetof(WireHeader, version) == 4);
static_assert(offsetof(WireHeader, header_size) == 6);
static_assert(offsetof(WireHeader, dtype) == 8);
static_assert(offsetof(WireHeader, ndim) == 12);
static_assert(offsetof(WireHeader, layout_kind) == 16);
static_assert(offsetof(WireHeader, reserved0) == 20);
static_assert(offsetof(WireHeader, data_offset) == 24);
static_assert(offsetof(WireHeader, data_bytes) == 32);
static_assert(offsetof(WireHeader, global_shape) == 40);
static_assert(offsetof(WireHeader, local_shape) == 104);
static_assert(offsetof(WireHeader, axis_count) == 168);
static_assert(offsetof(WireHeader, reserved1) == 172);
static_assert(offsetof(WireHeader, axes) == 176);

bool all_zero(const WireHeader& wire) noexcept {
  constexpr std::array<WireAxis, 4> kNoAxes{};
  return wire.reserved0 == 0 && wire.reserved1 == 0 &&
         std::memcmp(&wire.axes, &kNoAxes, sizeof(kNoAxes)) == 0;
}

// The fields before the shape. Nothing: no fault.
std::optional<HeaderFault> check_fixed_fields(const WireHeader& wire) noexcept {
  if (wire.magic != kMagic) return HeaderFault::kMagic;
  if (wire.version != kVersionNumber) return HeaderFault::kVersion;
  if (wire.header_size != kHeaderBytes) return HeaderFault::kHeaderSize;
  if (!known(static_cast<DType>(wire.dtype))) return HeaderFault::kDType;
  if (wire.ndim < 0 || wire.ndim > kDimsMax) return HeaderFault::kDimCount;
  if (wire.layout_kind == kLayoutShard) return HeaderFault::kShardLayout;
  if (wire.layout_kind != kLayoutFull) return HeaderFault::kLayoutKind;
  if (wire.axis_count != 0) return HeaderFault::kAxisCount;
  if (!all_zero(wire)) return HeaderFault::kReserved;
  return std::nullopt;
}

// Requires a checked ndim.
std::optional<HeaderFault> check_shapes(const WireHeader& wire) noexcept {
  const auto used = static_cast<std::size_t>(wire.ndim);
  for (std::size_t i = 0; i < used; ++i) {
    if (wire.global_shape[i] < 0 || wire.local_shape[i] < 0) return HeaderFault::kNegativeShape;
  }
  for (std::size_t i = used; i < kDimsMax; ++i) {
    if (wire.global_shape[i] != kUnusedDim || wire.local_shape[i] != kUnusedDim) {
      return HeaderFault::kUnusedDim;
    }
  }
  if (wire.global_shape != wire.local_shape) return HeaderFault::kShapeMismatch;
  return std::nullopt;
}

std::optional<HeaderFault> check_payload(const WireHeader& wire,
                                         std::uint64_t object_bytes) noexcept {
  const auto dims = std::span(wire.local_shape).first(static_cast<std::size_t>(wire.ndim));
  const auto bytes = byte_size(dims, size_of(static_cast<DType>(wire.dtype)));
  if (!bytes) return HeaderFault::kShapeOverflow;
  if (wire.data_bytes != *bytes) return HeaderFault::kDataBytes;
  if (wire.data_offset < kHeaderBytes || wire.data_offset > object_bytes) {
    return HeaderFault::kDataOffset;
  }
  if (!fits(wire.data_offset, wire.data_bytes, object_bytes)) {
    return HeaderFault::kPayloadBeyondObject;
  }
  return std::nullopt;
}

}  // namespace

std::string_view describe(HeaderFault fault) noexcept {
  switch (fault) {
    case HeaderFault::kShortBuffer:
      return "tensor header: shorter than its 304 bytes";
    case HeaderFault::kMagic:
      return "tensor header: the magic number is not 0x4D4F4F4E, so this is no tensor object";
    case HeaderFault::kVersion:
      return "tensor header: the version is not 1, the only one known";
    case HeaderFault::kHeaderSize:
      return "tensor header: header_size is not 304";
    case HeaderFault::kDType:
      return "tensor header: the dtype number is not one of 0..14";
    case HeaderFault::kDimCount:
      return "tensor header: ndim is not within 0..8";
    case HeaderFault::kLayoutKind:
      return "tensor header: layout_kind is neither 0 (full) nor 1 (shard)";
    case HeaderFault::kShardLayout:
      return "tensor header: layout_kind 1 (shard) is reserved; only full tensors are read";
    case HeaderFault::kReserved:
      return "tensor header: a reserved field is not zero";
    case HeaderFault::kNegativeShape:
      return "tensor header: a dimension is negative";
    case HeaderFault::kUnusedDim:
      return "tensor header: a dimension beyond ndim is not -1";
    case HeaderFault::kShapeMismatch:
      return "tensor header: local_shape and global_shape of a full tensor differ";
    case HeaderFault::kShapeOverflow:
      return "tensor header: the shape's byte size does not fit 64 bits";
    case HeaderFault::kDataBytes:
      return "tensor header: data_bytes is not shape x element size";
    case HeaderFault::kDataOffset:
      return "tensor header: data_offset is inside the header or beyond the object";
    case HeaderFault::kPayloadBeyondObject:
      return "tensor header: the elements reach beyond the object";
    case HeaderFault::kAxisCount:
      return "tensor header: a full tensor has axis_count 0";
  }
  return "tensor header: unknown fault";
}

Error to_error(HeaderFault fault) {
  const auto code = fault == HeaderFault::kVersion       ? Code::kVersion
                    : fault == HeaderFault::kShardLayout ? Code::kUnsupported
                                                         : Code::kCorrupt;
  return Error{code, Drop::kObject, std::string(describe(fault))};
}

Result<ObjectHeader> make_header(const TensorSpec& spec, std::uint64_t data_offset) {
  const auto bytes = sluice::byte_size(spec);
  if (!bytes) return std::unexpected(bytes.error());
  if (data_offset < kHeaderBytes || !checked_add(data_offset, *bytes)) {
    return fail(Code::kInvalidArgument,
                "data_offset must leave room for the header and the elements");
  }
  ObjectHeader header{.dtype = spec.dtype,
                      .ndim = static_cast<std::int32_t>(spec.shape.size()),
                      .shape = {},
                      .data_offset = data_offset,
                      .data_bytes = *bytes};
  std::copy(spec.shape.begin(), spec.shape.end(), header.shape.begin());
  return header;
}

TensorSpec spec_of(const ObjectHeader& header) {
  const auto dims = header.dims();
  return {.dtype = header.dtype, .shape = {dims.begin(), dims.end()}};
}

void encode_header(const ObjectHeader& header, std::span<std::byte, kHeaderBytes> to) noexcept {
  CHECK(known(header.dtype) && header.ndim >= 0 && header.ndim <= kDimsMax);
  WireHeader wire{};
  wire.magic = kMagic;
  wire.version = kVersionNumber;
  wire.header_size = kHeaderBytes;
  wire.dtype = static_cast<std::int32_t>(header.dtype);
  wire.ndim = header.ndim;
  wire.layout_kind = kLayoutFull;
  wire.data_offset = header.data_offset;
  wire.data_bytes = header.data_bytes;
  wire.local_shape.fill(kUnusedDim);
  const auto dims = header.dims();
  std::copy(dims.begin(), dims.end(), wire.local_shape.begin());
  wire.global_shape = wire.local_shape;
  std::memcpy(to.data(), &wire, sizeof(wire));
}

std::expected<ObjectHeader, HeaderFault> decode_header(std::span<const std::byte> from,
                                                       std::uint64_t object_bytes) noexcept {
  if (from.size() < kHeaderBytes || object_bytes < kHeaderBytes) {
    return std::unexpected(HeaderFault::kShortBuffer);
  }
  WireHeader wire;
  std::memcpy(&wire, from.data(), sizeof(wire));
  if (const auto fault = check_fixed_fields(wire)) return std::unexpected(*fault);
  if (const auto fault = check_shapes(wire)) return std::unexpected(*fault);
  if (const auto fault = check_payload(wire, object_bytes)) return std::unexpected(*fault);

  ObjectHeader header{.dtype = static_cast<DType>(wire.dtype),
                      .ndim = wire.ndim,
                      .shape = {},
                      .data_offset = wire.data_offset,
                      .data_bytes = wire.data_bytes};
  std::copy_n(wire.local_shape.begin(), wire.ndim, header.shape.begin());
  return header;
}

}  // namespace sluice::tensor
