// checked.h: arithmetic on sizes that come from outside. A length is compared before it is added.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

namespace sluice {

// True when [offset, offset + length) lies inside [0, size).
constexpr bool fits(std::uint64_t offset, std::uint64_t length, std::uint64_t size) noexcept {
  return offset <= size && length <= size - offset;
}

template <std::integral T>
constexpr std::optional<T> checked_mul(T a, T b) noexcept {
  T out{};
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

template <std::integral T>
constexpr std::optional<T> checked_add(T a, T b) noexcept {
  T out{};
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// Smallest multiple of `unit` (a power of two) that is not below n, or nothing when it does not
// fit.
constexpr std::optional<std::uint64_t> checked_align(std::uint64_t n, std::uint64_t unit) noexcept {
  const auto padded = checked_add<std::uint64_t>(n, unit - 1);
  if (!padded) return std::nullopt;
  return *padded & ~(unit - 1);
}

// For numbers already known to be small.
constexpr std::uint64_t align_up(std::uint64_t n, std::uint64_t unit) noexcept {
  return (n + unit - 1) & ~(unit - 1);
}

}  // namespace sluice
