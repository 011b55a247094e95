#include "kv/descriptor.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::kv {
namespace {

using ::testing::HasSubstr;

Descriptor example() {
  return {.engine = "vllm 0.32.0",
          .model = "owner/name",
          .revision = "weights-1",
          .dtype = "bfloat16",
          .layout = "LBHNC",
          .digest = "00112233445566778899aabbccddeeff",
          .tokens = 812,
          .layers = 32,
          .heads_total = 8,
          .planes = 1,
          .block_tokens = 128,
          .entry_bytes = 512,
          .rank = 1,
          .ranks = 4,
          .parts = 12};
}

TEST(HandoffDescriptor, ComesBackFromItsBytes) {
  const auto bytes = encode(example()).value();
  EXPECT_LE(bytes.size(), kDescriptorBytesMax);
  EXPECT_EQ(parse(bytes).value(), example());
}

// example() as an independent program wrote it from docs/formats/kv-handoff.md.
constexpr std::string_view kGolden =
    "534c4b44010000002c0300000000000000020000000000002000000008000000010000008000000001000000"
    "040000000c0000000b000000766c6c6d20302e33322e300a0000006f776e65722f6e616d6509000000776569"
    "676874732d310800000062666c6f61743136050000004c42484e432000000030303131323233333434353536"
    "36373738383939616162626363646465656666";

TEST(HandoffDescriptor, BytesAreThoseOfTheFormat) {
  std::string hex;
  const auto bytes = encode(example()).value();
  for (const std::byte byte : bytes) hex += fmt::format("{:02x}", std::to_integer<int>(byte));
  EXPECT_EQ(hex, kGolden);
}

TEST(HandoffDescriptor, EveryCutAndEveryLongerTextIsRefused) {
  auto bytes = encode(example()).value();
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const auto parsed = parse(std::span(bytes).first(n));
    ASSERT_FALSE(parsed.has_value()) << n;
  }
  bytes.push_back(std::byte{0});
  EXPECT_EQ(parse(bytes).error().code, Code::kCorrupt);
}

TEST(HandoffDescriptor, AnotherVersionIsNamed) {
  auto bytes = encode(example()).value();
  bytes[4] = std::byte{9};
  EXPECT_EQ(parse(bytes).error().code, Code::kVersion);
  EXPECT_THAT(parse(bytes).error().message, HasSubstr("version 9"));
}

TEST(HandoffDescriptor, NumbersThatCannotBeAreRefusedOnBothSides) {
  const std::vector<std::function<void(Descriptor&)>> broken{
      [](Descriptor& d) { d.tokens = 0; },
      [](Descriptor& d) { d.layers = 0; },
      [](Descriptor& d) { d.layers = 5000; },
      [](Descriptor& d) { d.heads_total = 0; },
      [](Descriptor& d) { d.heads_total = 6; },
      [](Descriptor& d) { d.planes = 3; },
      [](Descriptor& d) { d.block_tokens = 0; },
      [](Descriptor& d) { d.entry_bytes = 0; },
      [](Descriptor& d) { d.rank = 4; },
      [](Descriptor& d) { d.ranks = 0; },
      [](Descriptor& d) { d.parts = 0; },
      [](Descriptor& d) { d.model.assign(kDescriptorTextMax + 1, 'x'); }};
  for (std::size_t i = 0; i < broken.size(); ++i) {
    Descriptor d = example();
    broken[i](d);
    EXPECT_FALSE(encode(d).has_value()) << i;
  }
}

TEST(HandoffDescriptor, ADifferenceIsNamedWithBothValues) {
  struct Case {
    std::function<void(Descriptor&)> change;
    std::vector<std::string> says;
  };
  const std::vector<Case> cases{
      {[](Descriptor& d) { d.engine = "vllm 9"; }, {"engine", "vllm 9", "vllm 0.32.0"}},
      {[](Descriptor& d) { d.model = "m"; }, {"model", "owner/name"}},
      {[](Descriptor& d) { d.revision = "r"; }, {"revision", "weights-1"}},
      {[](Descriptor& d) { d.dtype = "float16"; }, {"dtype", "float16", "bfloat16"}},
      {[](Descriptor& d) { d.layout = "LBNHC"; }, {"layout", "LBNHC", "LBHNC"}},
      {[](Descriptor& d) { d.digest = "ff"; }, {"digest", "ff", "0011"}},
      {[](Descriptor& d) { d.tokens = 813; }, {"tokens", "813", "812"}},
      {[](Descriptor& d) { d.layers = 31; }, {"layers", "31", "32"}},
      {[](Descriptor& d) { d.heads_total = 16; }, {"heads_total", "16", "8"}},
      {[](Descriptor& d) { d.planes = 2; }, {"planes", "2", "1"}},
      {[](Descriptor& d) { d.block_tokens = 64; }, {"block_tokens", "64", "128"}},
      {[](Descriptor& d) { d.entry_bytes = 256; }, {"entry_bytes", "256", "512"}}};
  for (const Case& one : cases) {
    Descriptor found = example();
    one.change(found);
    const auto status = check_same(found, example());
    ASSERT_FALSE(status.has_value()) << one.says[0];
    EXPECT_EQ(status.error().code, Code::kConflict);
    for (const std::string& word : one.says) EXPECT_THAT(status.error().message, HasSubstr(word));
  }
}

TEST(HandoffDescriptor, TheWritersOwnNumbersMayDiffer) {
  Descriptor found = example();
  found.rank = 0;
  found.ranks = 2;
  found.parts = 99;
  EXPECT_TRUE(check_same(found, example()).has_value());
}

// Every head of every reader is given by exactly one writer, whatever the two sizes are.
TEST(HandoffDescriptor, EveryHeadComesFromExactlyOneWriter) {
  for (const std::uint32_t heads : {1u, 2u, 8u}) {
    for (const std::uint32_t writers : {1u, 2u, 4u, 8u}) {
      for (const std::uint32_t readers : {1u, 2u, 4u, 8u, 16u}) {
        for (std::uint32_t reader = 0; reader < readers; ++reader) {
          const auto ours = heads_of_rank(heads, reader, readers).value();
          std::vector<int> given(ours.count, 0);
          for (std::uint32_t writer = 0; writer < writers; ++writer) {
            Descriptor d = example();
            d.heads_total = heads;
            d.rank = writer;
            d.ranks = writers;
            const auto theirs = heads_of_rank(heads, writer, writers).value();
            const auto share = share_of(d, reader, readers).value();
            for (std::uint32_t h = 0; h < share.count; ++h) {
              ++given.at(share.paged_first + h);
              EXPECT_EQ(theirs.first + share.part_first + h, ours.first + share.paged_first + h);
              EXPECT_LT(share.part_first + h, theirs.count);
            }
          }
          for (const int times : given) EXPECT_EQ(times, 1) << heads << writers << readers;
        }
      }
    }
  }
}

TEST(HandoffDescriptor, HeadsThatCannotBeSharedEvenlyAreRefused) {
  EXPECT_FALSE(heads_of_rank(6, 0, 4).has_value());
  EXPECT_FALSE(heads_of_rank(8, 4, 4).has_value());
  EXPECT_FALSE(heads_of_rank(8, 0, 0).has_value());
  EXPECT_FALSE(heads_of_rank(0, 0, 1).has_value());
}

}  // namespace
}  // namespace sluice::kv
