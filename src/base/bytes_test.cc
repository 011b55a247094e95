#include "base/bytes.h"

#include <array>

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(ByteReader, RefusesTheFirstReadBeyondItsSpanAndEverythingAfter) {
  const std::array<std::byte, 6> bytes{std::byte{1}, std::byte{2}, std::byte{3},
                                       std::byte{4}, std::byte{5}, std::byte{6}};
  ByteReader reader(bytes);
  EXPECT_EQ(reader.read<std::uint32_t>(), 0x04030201u);
  EXPECT_EQ(reader.read<std::uint32_t>(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.read<std::uint8_t>(), 0u);
  EXPECT_EQ(reader.position(), 4u);
}

TEST(ByteReader, HugeLengthDoesNotWrapAround) {
  const std::array<std::byte, 2> bytes{};
  ByteReader reader(bytes);
  reader.read<std::uint8_t>();
  EXPECT_TRUE(reader.take(SIZE_MAX).empty());
  EXPECT_FALSE(reader.ok());
}

TEST(ByteWriter, WritesNothingBeyondItsSpan) {
  std::array<std::byte, 5> bytes{};
  ByteWriter writer{std::span(bytes).first(4)};
  writer.write<std::uint16_t>(0xBEEF);
  writer.write<std::uint32_t>(0xFFFFFFFF);
  EXPECT_FALSE(writer.ok());
  EXPECT_EQ(bytes[0], std::byte{0xEF});
  EXPECT_EQ(bytes[2], std::byte{0});
  EXPECT_EQ(bytes[4], std::byte{0});
}

}  // namespace
}  // namespace sluice
