// object_header.h: the 304 bytes in front of every tensor's elements.
//
// Byte for byte the header of Mooncake Store's tensor objects (docs/formats/tensor-object.md),
// little-endian, version 1.
//
// Invariant: decode(encode(h)) == h, and encode(decode(b)) == b for every b that is not refused: no
//            bit is ignored, so two headers that decode alike are alike. What decodes is
//            self-consistent: data_bytes is shape x dtype, and [data_offset, data_offset +
//            data_bytes) lies inside the object.
// Threads:   pure functions, any thread. They allocate nothing; only to_error() does.
// Failure:   every refusal has its own HeaderFault.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string_view>

#include <sluice/error.h>
#include <sluice/tensor.h>

#include "base/limits.h"

namespace sluice::tensor {

inline constexpr std::size_t kHeaderBytes = 304;

// Where Sluice puts the first element, from the start of the tensor object: the header rounded up,
// so that elements are aligned whenever the tensor object is. Objects of other writers may use any
// offset from kHeaderBytes on.
inline constexpr std::size_t kObjectAlign = 64;
inline constexpr std::uint64_t kElementsOffset = 320;
static_assert(kElementsOffset >= kHeaderBytes && kElementsOffset % kObjectAlign == 0);

struct ObjectHeader {
  DType dtype = DType::kF32;
  std::int32_t ndim = 0;
  std::array<std::int64_t, kDimsMax> shape{};   // the first ndim count, the rest are 0
  std::uint64_t data_offset = kElementsOffset;  // from the start of the tensor object
  std::uint64_t data_bytes = 0;

  std::span<const std::int64_t> dims() const noexcept {
    return std::span(shape).first(static_cast<std::size_t>(ndim));
  }
  bool operator==(const ObjectHeader&) const = default;
};

enum class HeaderFault : std::uint8_t {
  kShortBuffer,
  kMagic,
  kVersion,
  kHeaderSize,
  kDType,
  kDimCount,
  kLayoutKind,   // neither full nor shard
  kShardLayout,  // reserved, not readable yet
  kReserved,     // a reserved field is not zero
  kNegativeShape,
  kUnusedDim,      // a dimension beyond ndim is not -1
  kShapeMismatch,  // a full tensor whose local and global shape differ
  kShapeOverflow,
  kDataBytes,   // not shape x dtype
  kDataOffset,  // inside the header, or beyond the object
  kPayloadBeyondObject,
  kAxisCount,  // a full tensor has no axes
};

// One sentence: what is wrong and what would be right.
std::string_view describe(HeaderFault fault) noexcept;
Error to_error(HeaderFault fault);

// The header of a full tensor. Refuses an invalid spec.
Result<ObjectHeader> make_header(const TensorSpec& spec,
                                 std::uint64_t data_offset = kElementsOffset);
TensorSpec spec_of(const ObjectHeader& header);

// Requires a header that make_header() or decode_header() gave.
void encode_header(const ObjectHeader& header, std::span<std::byte, kHeaderBytes> to) noexcept;

// Reads the first kHeaderBytes of `from`, nothing else. `object_bytes` is the length of the tensor
// object that begins there, which may be more than is at hand.
std::expected<ObjectHeader, HeaderFault> decode_header(std::span<const std::byte> from,
                                                       std::uint64_t object_bytes) noexcept;
inline std::expected<ObjectHeader, HeaderFault> decode_header(
    std::span<const std::byte> object) noexcept {
  return decode_header(object, object.size());
}

}  // namespace sluice::tensor
