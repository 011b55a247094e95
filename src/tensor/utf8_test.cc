#include "tensor/utf8.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

namespace sluice::tensor {
namespace {

// A code point in the form that its value asks for.
std::string utf8_of(std::uint32_t point) {
  const auto tail = [](std::uint32_t bits) { return static_cast<char>(0x80 | (bits & 0x3F)); };
  if (point < 0x80) return std::string{static_cast<char>(point)};
  if (point < 0x800) return {static_cast<char>(0xC0 | point >> 6), tail(point)};
  if (point < 0x10000) {
    return {static_cast<char>(0xE0 | point >> 12), tail(point >> 6), tail(point)};
  }
  return {static_cast<char>(0xF0 | point >> 18), tail(point >> 12), tail(point >> 6), tail(point)};
}

TEST(Utf8, EveryCodePointButTheSurrogatesIsAccepted) {
  for (std::uint32_t point = 0; point < 0x110000; ++point) {
    const bool surrogate = point >= 0xD800 && point < 0xE000;
    ASSERT_EQ(is_utf8(utf8_of(point)), !surrogate) << point;
  }
  EXPECT_FALSE(is_utf8(utf8_of(0x110000)));
}

TEST(Utf8, OverlongBrokenAndCutFormsAreRefused) {
  for (const std::string text :
       {"\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xF0\x80\x80\x80",
        "\xF0\x8F\xBF\xBF", "\x80", "\xBF", "\xFE", "\xFF", "\xF8\x88\x80\x80\x80", "a\xC3",
        "\xE2\x82", "\xF0\x9F\x98", "\xC3(", "\xE2\x28\xA1", "\xE2\x82\x28"}) {
    EXPECT_FALSE(is_utf8(text));
  }
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8(std::string("a\0b", 3)));
}

}  // namespace
}  // namespace sluice::tensor
