#include "kv/paged_copy.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::kv {
namespace {

std::mt19937_64 seeded() {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device{}();
  std::cout << "SLUICE_TEST_SEED=" << seed << "\n";
  return std::mt19937_64(seed);
}

// Which of the four indices moves slowest, ..., fastest.
enum class Order { kBlockHeadToken, kBlockTokenHead, kHeadBlockToken, kPlaneInside };

// A cache of several layers with guard bytes around and between everything.
class Cache {
 public:
  Cache(BlockShape shape, std::uint32_t layers, std::uint32_t blocks, Order order,
        std::uint64_t gap, std::mt19937_64& random)
      : shape_(shape) {
    const std::uint64_t entry = shape.entry_bytes;
    PagedLayer layout{.blocks = blocks};
    std::uint64_t size = 0;
    switch (order) {
      case Order::kBlockHeadToken:
        layout.token_stride = entry;
        layout.head_stride = shape.block_tokens * entry;
        layout.block_stride = shape.heads * layout.head_stride + gap;
        layout.plane_stride = blocks * layout.block_stride;
        size = shape.planes * layout.plane_stride;
        break;
      case Order::kBlockTokenHead:
        layout.head_stride = entry;
        layout.token_stride = shape.heads * entry;
        layout.block_stride = shape.block_tokens * layout.token_stride + gap;
        layout.plane_stride = blocks * layout.block_stride;
        size = shape.planes * layout.plane_stride;
        break;
      case Order::kHeadBlockToken:
        layout.token_stride = entry;
        layout.block_stride = shape.block_tokens * entry + gap;
        layout.head_stride = blocks * layout.block_stride;
        layout.plane_stride = shape.heads * layout.head_stride;
        size = shape.planes * layout.plane_stride;
        break;
      case Order::kPlaneInside:
        layout.token_stride = entry;
        layout.plane_stride = shape.block_tokens * entry;
        layout.head_stride = shape.planes * layout.plane_stride;
        layout.block_stride = shape.heads * layout.head_stride + gap;
        size = blocks * layout.block_stride;
        break;
    }
    bytes_.resize(layers);
    for (auto& layer : bytes_) {
      layer.resize(size);
      std::ranges::generate(layer, [&] { return std::byte(random()); });
      layout.base = layer.data();
      layout.bytes = size;
      layers_.push_back(layout);
    }
  }

  Cache(Cache&&) = default;

  std::byte* entry(std::uint32_t layer, std::uint32_t plane, std::uint32_t block,
                   std::uint32_t head, std::uint32_t token) {
    const PagedLayer& l = layers_.at(layer);
    return l.base + plane * l.plane_stride + block * l.block_stride + head * l.head_stride +
           token * l.token_stride;
  }

  Cache copy() const {
    Cache out(*this);
    for (std::size_t i = 0; i < out.layers_.size(); ++i) out.layers_[i].base = out.bytes_[i].data();
    return out;
  }

  const BlockShape& shape() const { return shape_; }
  std::span<const PagedLayer> layers() const { return layers_; }
  const std::vector<std::vector<std::byte>>& bytes() const { return bytes_; }

 private:
  Cache(const Cache&) = default;

  BlockShape shape_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<PagedLayer> layers_;
};

std::vector<std::uint32_t> some_blocks(std::uint32_t blocks, std::size_t count,
                                       std::mt19937_64& random) {
  std::vector<std::uint32_t> ids(blocks);
  std::iota(ids.begin(), ids.end(), 0u);
  if (random() % 2 == 0) std::ranges::shuffle(ids, random);  // otherwise neighbours
  ids.resize(count);
  return ids;
}

Transfer whole(const Cache& cache, std::span<const std::uint32_t> ids) {
  return {.part = cache.shape(),
          .paged = cache.shape(),
          .layers = cache.layers(),
          .block_ids = ids,
          .part_blocks = ids.size(),
          .heads = {0, 0, cache.shape().heads}};
}

std::vector<std::byte> part_for(const Transfer& t) {
  return std::vector<std::byte>(
      part_bytes(t.part, static_cast<std::uint32_t>(t.layers.size()), t.part_blocks).value());
}

const std::byte* dense_entry(const std::vector<std::byte>& part, const Transfer& t,
                             std::uint32_t layer, std::uint32_t plane, std::uint64_t block,
                             std::uint32_t head, std::uint32_t token) {
  std::uint64_t at = layer;
  at = at * t.part.planes + plane;
  at = at * t.part_blocks + block;
  at = at * t.part.heads + head;
  at = at * t.part.block_tokens + token;
  return part.data() + at * t.part.entry_bytes;
}

TEST(PagedCopy, APartHoldsEveryEntryWhereTheFormatSays) {
  auto random = seeded();
  for (int run = 0; run < 200; ++run) {
    const BlockShape shape{.planes = 1 + static_cast<std::uint32_t>(random() % 2),
                           .heads = 1 + static_cast<std::uint32_t>(random() % 3),
                           .block_tokens = 1 + static_cast<std::uint32_t>(random() % 5),
                           .entry_bytes = 1 + random() % 9};
    Cache cache(shape, 1 + static_cast<std::uint32_t>(random() % 3), 7,
                static_cast<Order>(random() % 4), random() % 3 * 5, random);
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
    const BlockShape shape{.planes = 1 + static_cast<std::uint32_t>(random() % 2),
                           .heads = 1 + static_cast<std::uint32_t>(random() % 3),
                           .block_tokens = 1 + static_cast<std::uint32_t>(random() % 5),
                           .entry_bytes = 1 + random() % 9};
    Cache from(shape, 2, 6, static_cast<Order>(random() % 4), random() % 3 * 5, random);
    Cache to(shape, 2, 9, static_cast<Order>(random() % 4), random() % 3 * 5, random);
    Cache expected = to.copy();
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
  std::vector<Cache> writers;
  std::vector<std::vector<std::byte>> parts;
  const std::vector<std::uint32_t> ids{3, 1};
  for (int rank = 0; rank < 2; ++rank) {
    writers.emplace_back(two, 2, 4, Order::kBlockTokenHead, 0, random);
    const Transfer t = whole(writers.back(), ids);
    parts.push_back(part_for(t));
    ASSERT_TRUE(gather(parts.back(), t).has_value());
  }
  Cache all(four, 2, 4, Order::kBlockHeadToken, 0, random);
  for (std::uint32_t reader = 0; reader < 4; ++reader) {
    Cache single(one, 2, 4, Order::kBlockHeadToken, 0, random);
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
  Cache cache(shape, 2, 4, Order::kBlockHeadToken, 0, random);
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
