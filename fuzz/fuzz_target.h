// fuzz_target.h: the one function of a fuzz target, and its input as the spans that the product
// takes.
//
// A target breaks a promise by CHECK (base/check.h), which aborts: that is what libFuzzer and the
// replay test see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace sluice::fuzz {

inline std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) noexcept {
  return std::as_bytes(std::span(data, size));
}

inline std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace sluice::fuzz
