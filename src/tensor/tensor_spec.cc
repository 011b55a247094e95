#include "tensor/tensor_spec.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/checked.h"
#include "base/limits.h"

namespace sluice {
namespace tensor {

std::optional<std::uint64_t> byte_size(std::span<const std::int64_t> shape,
                                       std::size_t element_bytes) noexcept {
  std::uint64_t bytes = element_bytes;
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      empty = true;
      continue;
    }
    const auto product = checked_mul(bytes, static_cast<std::uint64_t>(dim));
    if (!product) return std::nullopt;
    bytes = *product;
  }
  return empty ? 0 : bytes;
}

Status validate(const TensorSpec& spec) {
  if (!known(spec.dtype)) {
    return fail(Code::kInvalidArgument,
                fmt::format("dtype number {} is unknown", static_cast<std::int32_t>(spec.dtype)));
  }
  if (spec.shape.size() > static_cast<std::size_t>(kDimsMax)) {
    return fail(Code::kInvalidArgument, fmt::format("a tensor has at most {} dimensions, not {}",
                                                    kDimsMax, spec.shape.size()));
  }
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    if (spec.shape[i] < 0) {
      return fail(Code::kInvalidArgument,
                  fmt::format("dimension {} is {}; it must not be negative", i, spec.shape[i]));
    }
  }
  if (!byte_size(spec.shape, size_of(spec.dtype))) {
    return fail(Code::kInvalidArgument, "the shape's byte size does not fit 64 bits");
  }
  return {};
}

}  // namespace tensor

Result<std::uint64_t> byte_size(const TensorSpec& spec) {
  if (auto valid = tensor::validate(spec); !valid) return std::unexpected(std::move(valid.error()));
  const auto bytes = tensor::byte_size(spec.shape, size_of(spec.dtype));
  CHECK(bytes.has_value());
  return *bytes;
}

}  // namespace sluice
