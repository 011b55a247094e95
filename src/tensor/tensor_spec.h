// tensor_spec.h: whether a tensor description is one that can be stored.
//
// Invariant: a spec that passed validate() has a known dtype, at most kDimsMax dimensions, none
//            negative, and a byte size that fits 64 bits. The size is checked as if zero dimensions
//            were one, so that it does not depend on the order of the dimensions.
// Threads:   pure functions, any thread.
// Failure:   kInvalidArgument naming the dimension or dtype.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <sluice/tensor.h>

namespace sluice::tensor {

Status validate(const TensorSpec& spec);

bool known(DType dtype) noexcept;

// product(shape) x element_bytes, or nothing when a dimension is negative or a product does not
// fit. No allocation.
std::optional<std::uint64_t> byte_size(std::span<const std::int64_t> shape,
                                       std::size_t element_bytes) noexcept;

}  // namespace sluice::tensor
