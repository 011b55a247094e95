#include "kv/paged_copy.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kv/test_cache.h"

namespace sluice::kv {
namespace {

TEST(PagedCopy, APartHoldsEveryEntryWhereTheFormatSays) {
  auto random = seeded();
  for (int run = 0; run < 200; ++run) {
    const BlockShape shape = random_shape(random);
    TestCache cache(shape, 1 + static_cast<std::uint32_t>(random() % 3), 7, random_order(random),
                    random() % 3 * 5, random);
    const auto ids = some_blocks(7, 1 + random() % 7, random);
    const Transfer t = whole(cache, ids);
    auto part = part_for(t);
    ASSERT_TRUE(gather(part, t).has_value());
    for (std::uint32_t layer = 0; layer < t.layers.size(); ++layer) {
      for (std::uint32_t plane = 0; plane < shape.planes; ++plane) {
        for (std::size_t block = 0; block < ids.size(); ++block) {
          for (std::uint32_t head = 0; head < shape.heads; ++head) {
            for (std::uint32_t token = 0; token < shape.block_tokens; ++token) {
              const std::byte* from = cache.entry(layer, plane, ids[block], head, token);
              const std::byte* to = dense_entry(part, t, layer, plane, block, head, token);
              ASSERT_TRUE(std::equal(from, from + shape.entry_bytes, to));
            }
          }
        }
      }
    }
  }
}

// Into a cache of other strides and other block ids, some blocks left out: what was named arrives,
// and no other byte changes.
TEST(PagedCopy, ScatterWritesExactlyTheBlocksThatWereNamed) {
  auto random = seeded();
  for (int run = 0; run < 200; ++run) {
    const BlockShape shape = random_shape(random);
    TestCache from(shape, 2, 6, random_order(random), random() % 3 * 5, random);
    TestCache to(shape, 2, 9, random_order(random), random() % 3 * 5, random);
    TestCache expected = to.copy();
    const auto source = some_blocks(6, 5, random);
    const Transfer out = whole(from, source);
    auto part = part_for(out);
    ASSERT_TRUE(gather(part, out).has_value());

    const std::size_t skip = random() % 5;
    const auto target = some_blocks(9, 5 - skip, random);
    Transfer in = whole(to, target);
    in.part_blocks = 5;
    in.part_first_block = skip;
    ASSERT_TRUE(scatter(part, in).has_value());
    for (std::uint32_t layer = 0; layer < 2; ++layer) {
      for (std::uint32_t plane = 0; plane < shape.planes; ++plane) {
        for (std::size_t block = 0; block < target.size(); ++block) {
          for (std::uint32_t head = 0; head < shape.heads; ++head) {
            for (std::uint32_t token = 0; token < shape.block_tokens; ++token) {
              std::copy_n(from.entry(layer, plane, source[skip + block], head, token),
                          shape.entry_bytes,
                          expected.entry(layer, plane, target[block], head, token));
            }
          }
        }
      }
    }
    ASSERT_EQ(to.bytes(), expected.bytes());
  }
}

// Two ranks write two heads each; four ranks read one each, and one rank reads all four.
TEST(PagedCopy, HeadRangesAreSplitAndJoined) {
  auto random = seeded();
  const BlockShape two{.planes = 1, .heads = 2, .block_tokens = 3, .entry_bytes = 4};
  const BlockShape one{.planes = 1, .heads = 1, .block_tokens = 3, .entry_bytes = 4};
  const BlockShape four{.planes = 1, .heads = 4, .block_tokens = 3, .entry_bytes = 4};
  std::vector<TestCache> writers;
  std::vector<std::vector<std::byte>> parts;
  const std::vector<std::uint32_t> ids{3, 1};
  for (int rank = 0; rank < 2; ++rank) {
    writers.emplace_back(two, 2, 4, Order::kBlockTokenHead, 0, random);
    const Transfer t = whole(writers.back(), ids);
    parts.push_back(part_for(t));
    ASSERT_TRUE(gather(parts.back(), t).has_value());
  }
  TestCache all(four, 2, 4, Order::kBlockHeadToken, 0, random);
  for (std::uint32_t reader = 0; reader < 4; ++reader) {
    TestCache single(one, 2, 4, Order::kBlockHeadToken, 0, random);
    Transfer in = whole(single, ids);
    in.part = two;
    in.heads = {reader % 2, 0, 1};
    ASSERT_TRUE(scatter(parts[reader / 2], in).has_value());
    Transfer join = whole(all, ids);
    join.part = two;
    join.heads = {reader % 2, reader, 1};
    ASSERT_TRUE(scatter(parts[reader / 2], join).has_value());
    for (std::uint32_t layer = 0; layer < 2; ++layer) {
      for (const std::uint32_t id : ids) {
        for (std::uint32_t token = 0; token < 3; ++token) {
          const std::byte* wanted = writers[reader / 2].entry(layer, 0, id, reader % 2, token);
          EXPECT_TRUE(std::equal(wanted, wanted + 4, single.entry(layer, 0, id, 0, token)));
          EXPECT_TRUE(std::equal(wanted, wanted + 4, all.entry(layer, 0, id, reader, token)));
        }
      }
    }
  }
}

TEST(PagedCopy, WhatDoesNotFitIsRefusedBeforeAByteMoves) {
  auto random = seeded();
  const BlockShape shape{.planes = 1, .heads = 2, .block_tokens = 3, .entry_bytes = 4};
  TestCache cache(shape, 2, 4, Order::kBlockHeadToken, 0, random);
  const auto before = cache.bytes();
  const std::vector<std::uint32_t> ids{0, 3};
  const Transfer good = whole(cache, ids);
  const std::vector<std::byte> part = part_for(good);
  const auto refused = [&](auto change, std::span<const std::byte> bytes) {
    Transfer t = good;
    change(t);
    const auto status = scatter(bytes, t);
    return !status.has_value() && status.error().code == Code::kInvalidArgument;
  };
  const std::vector<std::uint32_t> outside{0, 4};
  PagedLayer shorter[2] = {cache.layers()[0], cache.layers()[1]};
  shorter[1].bytes -= 1;
  PagedLayer far[2] = {cache.layers()[0], cache.layers()[1]};
  far[0].block_stride = ~std::uint64_t{0};
  EXPECT_TRUE(refused([](Transfer&) {}, std::span(part).first(part.size() - 1)));
  EXPECT_TRUE(refused([&](Transfer& t) { t.block_ids = outside; }, part));
  EXPECT_TRUE(refused([&](Transfer& t) { t.layers = shorter; }, part));
  EXPECT_TRUE(refused([&](Transfer& t) { t.layers = far; }, part));
  EXPECT_TRUE(refused([](Transfer& t) { t.part_first_block = 1; }, part));
  EXPECT_TRUE(refused([](Transfer& t) { t.part_first_block = ~std::uint64_t{0}; }, part));
  EXPECT_TRUE(refused([](Transfer& t) { t.heads = {1, 0, 2}; }, part));
  EXPECT_TRUE(refused([](Transfer& t) { t.heads = {0, 0, 0}; }, part));
  EXPECT_TRUE(refused([](Transfer& t) { t.part.entry_bytes = 8; }, part));
  EXPECT_TRUE(refused([](Transfer& t) { t.layers = {}; }, part));
  EXPECT_EQ(cache.bytes(), before);
  EXPECT_TRUE(scatter(part, good).has_value());
  std::vector<std::byte> out(part.size());
  Transfer half = good;
  half.heads = {0, 0, 1};
  EXPECT_FALSE(gather(out, half).has_value()) << "a part with heads that nobody wrote";
  Transfer shorter_by_one = good;
  shorter_by_one.block_ids = good.block_ids.first(1);
  EXPECT_FALSE(gather(out, shorter_by_one).has_value()) << "a part with a block that nobody wrote";
}

TEST(PagedCopy, SizesThatOverflowAreRefused) {
  const BlockShape most{.planes = kPlanesMax,
                        .heads = kHeadsMax,
                        .block_tokens = kBlockTokensMax,
                        .entry_bytes = kEntryBytesMax};
  EXPECT_TRUE(block_bytes(most).has_value());
  EXPECT_FALSE(part_bytes(most, 2, 1u << 20).has_value());
  EXPECT_FALSE(part_bytes(most, 1, ~std::uint64_t{0}).has_value());
  BlockShape above = most;
  ++above.heads;
  EXPECT_FALSE(block_bytes(above).has_value());
}

}  // namespace
}  // namespace sluice::kv
