#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include <sluice/tensor.h>

#include "tensor/tensor_spec.h"

namespace sluice {
namespace {

struct DTypeRow {
  DType dtype;
  std::size_t bytes;
  std::string_view name;
};

// In the order of the enum, so that a dtype's number is its row.
constexpr std::array kRows = {
    DTypeRow{DType::kF32, 4, "float32"},
    DTypeRow{DType::kF64, 8, "float64"},
    DTypeRow{DType::kI8, 1, "int8"},
    DTypeRow{DType::kU8, 1, "uint8"},
    DTypeRow{DType::kI16, 2, "int16"},
    DTypeRow{DType::kU16, 2, "uint16"},
    DTypeRow{DType::kI32, 4, "int32"},
    DTypeRow{DType::kU32, 4, "uint32"},
    DTypeRow{DType::kI64, 8, "int64"},
    DTypeRow{DType::kU64, 8, "uint64"},
    DTypeRow{DType::kBool, 1, "bool"},
    DTypeRow{DType::kF16, 2, "float16"},
    DTypeRow{DType::kBF16, 2, "bfloat16"},
    DTypeRow{DType::kF8E4M3, 1, "float8_e4m3"},
    DTypeRow{DType::kF8E5M2, 1, "float8_e5m2"},
};

consteval bool rows_follow_the_enum() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].dtype) != i) return false;
  }
  return true;
}
static_assert(rows_follow_the_enum());

const DTypeRow* row_of(DType dtype) noexcept {
  const auto index = static_cast<std::int32_t>(dtype);
  if (index < 0 || index >= static_cast<std::int32_t>(kRows.size())) return nullptr;
  return &kRows[static_cast<std::size_t>(index)];
}

}  // namespace

std::size_t size_of(DType dtype) noexcept {
  const auto* row = row_of(dtype);
  return row == nullptr ? 0 : row->bytes;
}

std::string_view name(DType dtype) noexcept {
  const auto* row = row_of(dtype);
  return row == nullptr ? "unknown" : row->name;
}

Result<DType> dtype_from_name(std::string_view text) {
  // What PyTorch calls this type; the "fn" (finite, NaN only) form is the one that the number
  // stands for.
  if (text == "float8_e4m3fn") return DType::kF8E4M3;
  for (const auto& row : kRows) {
    if (row.name == text) return row.dtype;
  }
  std::string known_names;
  for (const auto& row : kRows) {
    if (!known_names.empty()) known_names += ", ";
    known_names += row.name;
  }
  return fail(Code::kInvalidArgument,
              "unknown dtype '" + std::string(text) + "'; known are " + known_names);
}

namespace tensor {

bool known(DType dtype) noexcept {
  return row_of(dtype) != nullptr;
}

}  // namespace tensor
}  // namespace sluice
