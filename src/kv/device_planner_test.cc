// The arithmetic of the CUDA kernels, carried out by this processor: every piece of every row, in
// an order of its own.
#include "kv/device_planner.h"

#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "kv/test_cache.h"

namespace sluice::kv {
namespace {

enum class To { kPart, kPaged };

// Copies all pieces in random order and checks what a launch relies on.
void carry_out(const PlannedCopy& copy, std::span<const std::uint32_t> ids, To to,
               std::mt19937_64& random) {
  const DevicePlan& plan = copy.plan;
  std::vector<std::uint64_t> numbers(std::uint64_t{plan.rows} * plan.row_pieces);
  std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
  std::ranges::shuffle(numbers, random);
  for (const std::uint64_t number : numbers) {
    const auto row = static_cast<std::uint32_t>(number / plan.row_pieces);
    const auto index = static_cast<std::uint32_t>(number % plan.row_pieces);
    const DevicePiece piece = piece_of(plan, copy.layers.data(), ids.data(), row, index);
    ASSERT_TRUE(piece.bytes > 0 && piece.bytes <= kPieceBytes);
    for (const auto value : {reinterpret_cast<std::uintptr_t>(piece.part),
                             reinterpret_cast<std::uintptr_t>(piece.paged),
                             static_cast<std::uintptr_t>(piece.bytes)}) {
      ASSERT_EQ(value % plan.vector_bytes, 0u) << "a vector would not be aligned";
    }
    if (to == To::kPart) {
      std::memcpy(piece.part, piece.paged, piece.bytes);
    } else {
      std::memcpy(piece.paged, piece.part, piece.bytes);
    }
  }
}

TEST(DevicePlan, PiecesInAnyOrderGatherWhatTheProcessorGathers) {
  auto random = seeded();
  for (int round = 0; round < 200; ++round) {
    const BlockShape shape = random_shape(random);
    TestCache cache(shape, 2, 7, random_order(random), random() % 3 * 5, random);
    const auto ids = some_blocks(7, 1 + random() % 7, random);
    const Transfer t = whole(cache, ids);
    auto expected = part_for(t);
    ASSERT_TRUE(gather(expected, t));
    std::vector<std::byte> memory(expected.size() + 64);
    const auto part = std::span(memory).subspan(random() % 17, expected.size());
    const auto copy = plan_copy(part.data(), t);
    ASSERT_TRUE(copy);
    carry_out(*copy, ids, To::kPart, random);
    EXPECT_TRUE(std::ranges::equal(part, expected));
  }
}

TEST(DevicePlan, PiecesInAnyOrderScatterWhatTheProcessorScatters) {
  auto random = seeded();
  for (int round = 0; round < 200; ++round) {
    const BlockShape written = random_shape(random);
    BlockShape read = written;
    read.heads = 1 + static_cast<std::uint32_t>(random() % 4);
    TestCache to(read, 2, 9, random_order(random), random() % 3 * 5, random);
    TestCache expected = to.copy();
    std::vector<std::uint32_t> ids;
    const Transfer t = some_heads(to, written, ids, random);
    std::vector<std::byte> part = random_part_for(t, random);
    Transfer by_hand = t;
    by_hand.layers = expected.layers();
    ASSERT_TRUE(scatter(part, by_hand));
    const auto copy = plan_copy(part.data(), t);
    ASSERT_TRUE(copy);
    carry_out(*copy, ids, To::kPaged, random);
    EXPECT_EQ(to.bytes(), expected.bytes());
  }
}

TEST(DevicePlan, WhatIsAlignedAndTogetherGoesInVectorsOf16AndPiecesOf2KiB) {
  // Addresses are only reckoned with.
  auto* const part = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
  auto* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 41);
  const BlockShape shape{.planes = 2, .heads = 8, .block_tokens = 16, .entry_bytes = 256};
  const std::uint64_t block = std::uint64_t{8} * 16 * 256;
  PagedLayer layer{.base = base,
                   .bytes = 200 * block,
                   .blocks = 100,
                   .plane_stride = 100 * block,
                   .block_stride = block,
                   .head_stride = 16 * 256,
                   .token_stride = 256};
  const std::vector<std::uint32_t> ids{7, 3, 99};
  Transfer t{.part = shape,
             .paged = shape,
             .layers = std::span(&layer, 1),
             .block_ids = ids,
             .part_blocks = ids.size(),
             .heads = {0, 0, 8}};
  auto copy = plan_copy(part, t);
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->plan.vector_bytes, 16u);
  EXPECT_EQ(copy->plan.rows, 6u);
  EXPECT_EQ(copy->plan.span_bytes, block);
  EXPECT_EQ(copy->plan.row_pieces, block / kPieceBytes);

  // Tokens before heads: an entry at a time.
  layer.head_stride = 256;
  layer.token_stride = 8 * 256;
  copy = plan_copy(part, t);
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->plan.vector_bytes, 16u);
  EXPECT_EQ(copy->plan.span_bytes, 256u);
  EXPECT_EQ(copy->plan.row_pieces, 128u);

  copy = plan_copy(part + 4, t);
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->plan.vector_bytes, 4u);
}

TEST(DevicePlan, MorePiecesThanALaunchNumbersAreRefused) {
  const BlockShape shape{
      .planes = 1, .heads = kHeadsMax, .block_tokens = kBlockTokensMax, .entry_bytes = 1};
  const PagedLayer layer{.base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 41),
                         .bytes = ~std::uint64_t{0},
                         .blocks = 1,
                         .head_stride = 1,
                         .token_stride = kHeadsMax};
  const std::vector<std::uint32_t> ids{0};
  const auto copy = plan_copy(nullptr, {.part = shape,
                                        .paged = shape,
                                        .layers = std::span(&layer, 1),
                                        .block_ids = ids,
                                        .part_blocks = 1,
                                        .heads = {0, 0, kHeadsMax}});
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().code, Code::kLimit);
}

}  // namespace
}  // namespace sluice::kv
