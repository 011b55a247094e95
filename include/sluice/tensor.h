// tensor.h: what one tensor is (dtype, shape) and what one object is (a bundle of named tensors
// with attributes).
//
// Bytes of an object: the bundle (tensor objects back to back, each with its 304-byte header, each
// 64-byte aligned), as written in docs/formats/. Nothing here owns tensor memory.
// Threads: plain values, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <sluice/error.h>

namespace sluice {

// Numbers are those of the 304-byte header and never change.
enum class DType : std::int32_t {
  kF32 = 0,
  kF64 = 1,
  kI8 = 2,
  kU8 = 3,
  kI16 = 4,
  kU16 = 5,
  kI32 = 6,
  kU32 = 7,
  kI64 = 8,
  kU64 = 9,
  kBool = 10,
  kF16 = 11,
  kBF16 = 12,
  kF8E4M3 = 13,
  kF8E5M2 = 14,
};

std::size_t size_of(DType dtype) noexcept;    // bytes per element; 0 for a value outside the enum
std::string_view name(DType dtype) noexcept;  // "float32", "bfloat16", "float8_e4m3", ...
Result<DType> dtype_from_name(
    std::string_view text);  // accepts what name() prints, and "float8_e4m3fn"

// Where the bytes of a tensor lie.
enum class MemoryKind : std::uint8_t { kHost = 0, kCuda = 1 };

struct TensorSpec {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  // 0..8 dimensions, each >= 0

  bool operator==(const TensorSpec&) const = default;
};

Result<std::uint64_t> byte_size(
    const TensorSpec& spec);  // product(shape) x element size, overflow checked

struct NamedTensorSpec {
  std::string name;  // 1..64 bytes, unique in its bundle; a bundle of one tensor calls it "tensor"
  TensorSpec spec;

  bool operator==(const NamedTensorSpec&) const = default;
};

// Small typed values that travel with an object, e.g. image_grid_thw, modality, row count. At most
// 4 KiB encoded.
using AttributeValue = std::variant<std::vector<std::int64_t>, std::vector<double>, std::string>;
struct Attribute {
  std::string name;
  AttributeValue value;

  bool operator==(const Attribute&) const = default;
};
using Attributes = std::vector<Attribute>;

// One tensor inside the bytes of an object.
struct TensorView {
  std::string name;
  TensorSpec spec;
  std::uint64_t data_offset = 0;  // of the first element, from the start of the object's bytes
  std::uint64_t data_bytes = 0;

  bool operator==(const TensorView&) const = default;
};

}  // namespace sluice
