// What is copied at once. That every byte arrives is paged_copy_test.cc's and part_test.cc's.
#include "kv/runs.h"

#include <gtest/gtest.h>

#include "kv/test_cache.h"

namespace sluice::kv {
namespace {

constexpr BlockShape kShape{.planes = 2, .heads = 4, .block_tokens = 8, .entry_bytes = 32};

std::vector<MemoryRun> all_runs(const Transfer& t) {
  std::vector<MemoryRun> out;
  Runs runs(t);
  for (auto batch = runs.next(); !batch.empty(); batch = runs.next())
    out.insert(out.end(), batch.begin(), batch.end());
  EXPECT_TRUE(runs.next().empty()) << "the end stays the end";
  return out;
}

std::size_t count(const Transfer& t) {
  return all_runs(t).size();
}

TEST(Runs, WhatLiesTogetherIsOneRun) {
  auto random = seeded();
  const std::vector<std::uint32_t> neighbours{3, 4, 5, 6}, pairs{8, 9, 2, 3}, apart{7, 5, 3, 1};
  const TestCache heads_first(kShape, 3, 10, Order::kBlockHeadToken, 0, random);
  constexpr std::size_t kPlanes = 3 * 2;
  EXPECT_EQ(count(whole(heads_first, neighbours)), kPlanes);
  EXPECT_EQ(count(whole(heads_first, pairs)), kPlanes * 2);
  EXPECT_EQ(count(whole(heads_first, apart)), kPlanes * 4);
  // Bytes between blocks, heads apart, tokens before heads.
  const TestCache gaps(kShape, 3, 10, Order::kBlockHeadToken, 5, random);
  EXPECT_EQ(count(whole(gaps, neighbours)), kPlanes * 4);
  const TestCache blocks_inside(kShape, 3, 10, Order::kHeadBlockToken, 0, random);
  EXPECT_EQ(count(whole(blocks_inside, apart)), kPlanes * 4 * 4);
  const TestCache tokens_first(kShape, 3, 10, Order::kBlockTokenHead, 0, random);
  EXPECT_EQ(count(whole(tokens_first, apart)), kPlanes * 4 * 4 * 8);
}

TEST(Runs, SomeOfTheHeadsAreOneRunOfABlock) {
  auto random = seeded();
  const TestCache cache(kShape, 1, 10, Order::kBlockHeadToken, 0, random);
  const std::vector<std::uint32_t> ids{3, 4};
  Transfer t = whole(cache, ids);
  t.heads = {.part_first = 1, .paged_first = 2, .count = 2};
  const auto runs = all_runs(t);
  ASSERT_EQ(runs.size(), 2u * 2);
  EXPECT_EQ(runs.front().bytes, 2u * 8 * 32);
  EXPECT_EQ(runs.front().offset, 1u * 8 * 32);
}

// Caches of two layers may be neighbours in memory by chance; they are not one object.
TEST(Runs, NoRunCrossesAPlaneOrALayer) {
  auto random = seeded();
  TestCache cache(kShape, 1, 4, Order::kBlockHeadToken, 0, random);
  const std::uint64_t plane_bytes = cache.layers().front().plane_stride;
  BlockShape shape = kShape;
  shape.planes = 1;
  PagedLayer first = cache.layers().front(), second = first;
  first.bytes = second.bytes = plane_bytes;
  second.base += plane_bytes;
  const std::array layers{first, second};
  const std::vector<std::uint32_t> ids{0, 1, 2, 3};
  Transfer t = whole(cache, ids);
  t.part = t.paged = shape;
  t.layers = layers;
  EXPECT_EQ(count(t), 2u);
  EXPECT_EQ(count(whole(cache, ids)), 2u);
}

TEST(Runs, RunsAscendAcrossBatchesAndCoverThePart) {
  auto random = seeded();
  for (int round = 0; round < 50; ++round) {
    const TestCache cache(random_shape(random), 3, 20, random_order(random), 0, random);
    const auto ids = some_blocks(20, 20, random);
    const Transfer t = whole(cache, ids);
    std::uint64_t reached = 0;
    for (const MemoryRun& run : all_runs(t)) {
      ASSERT_EQ(run.offset, reached);
      reached += run.bytes;
    }
    EXPECT_EQ(reached, part_for(t).size());
  }
}

}  // namespace
}  // namespace sluice::kv
