#include "store/record_heap.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::store {
namespace {

using Record = std::pair<std::uint32_t, std::uint32_t>;  // first granule, granules

std::mt19937_64 seeded() {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const std::uint64_t seed = given ? std::stoull(given) : std::random_device{}();
  std::cout << "SLUICE_TEST_SEED=" << seed << "\n";
  return std::mt19937_64(seed);
}

bool fits_somewhere(const std::vector<bool>& taken, std::uint32_t granules) {
  std::uint32_t run = 0;
  for (const bool t : taken) {
    run = t ? 0 : run + 1;
    if (run == granules) return true;
  }
  return false;
}

TEST(RecordHeap, AllOfItCanBeUsedAndComesBackAsOneRun) {
  RecordHeap heap(100);
  std::vector<std::uint32_t> firsts;
  while (const auto first = heap.allocate(3)) firsts.push_back(*first);
  EXPECT_EQ(firsts.size(), 33u);
  EXPECT_TRUE(heap.allocate(1));
  EXPECT_FALSE(heap.allocate(1));
  EXPECT_EQ(heap.used_granules(), 100u);
  std::mt19937_64 random(1);
  std::shuffle(firsts.begin(), firsts.end(), random);
  for (const auto first : firsts) heap.free(first, 3);
  EXPECT_EQ(heap.used_granules(), 1u);
  std::uint32_t longest = 0;
  while (heap.allocate(kRecordGranulesMax)) ++longest;
  EXPECT_EQ(longest, 99 / kRecordGranulesMax);
}

TEST(RecordHeap, AnEmptyRegionHoldsNothing) {
  RecordHeap heap(0);
  EXPECT_FALSE(heap.allocate(1));
  EXPECT_FALSE(heap.reserve(0, 1));
}

TEST(RecordHeap, GarbageFromASlotIsNotReserved) {
  RecordHeap heap(64);
  EXPECT_FALSE(heap.reserve(0, 0));
  EXPECT_FALSE(heap.reserve(0, kRecordGranulesMax + 1));
  EXPECT_FALSE(heap.reserve(64, 1));
  EXPECT_FALSE(heap.reserve(63, 2));
  EXPECT_FALSE(heap.reserve(UINT32_MAX, 1));
  EXPECT_FALSE(heap.reserve(UINT32_MAX, UINT32_MAX));
  EXPECT_TRUE(heap.reserve(62, 2));
  EXPECT_FALSE(heap.reserve(61, 2));
  EXPECT_EQ(heap.used_granules(), 2u);
}

TEST(RecordHeapDeathTest, FreeingTwiceOrBeyondTheEndIsCaught) {
  RecordHeap heap(64);
  const auto first = *heap.allocate(4);
  heap.free(first, 4);
  EXPECT_DEATH(heap.free(first, 4), "bug: CHECK");
  const auto again = *heap.allocate(4);
  EXPECT_DEATH(heap.free(again, 5), "bug: CHECK");
  EXPECT_DEATH(heap.free(63, 2), "bug: CHECK");
  EXPECT_DEATH(heap.allocate(0), "bug: CHECK");
  EXPECT_DEATH(heap.allocate(kRecordGranulesMax + 1), "bug: CHECK");
}

TEST(RecordHeap, BehavesLikeABitmapUnderRandomOperations) {
  auto random = seeded();
  for (const std::uint32_t total : {1u, 63u, 64u, 65u, 300u}) {
    RecordHeap heap(total);
    std::vector<bool> taken(total);
    std::vector<Record> live;
    for (int i = 0; i < 20000; ++i) {
      const auto choice = random() % 16;
      if (choice < 7) {
        const auto n = static_cast<std::uint32_t>(1 + random() % kRecordGranulesMax);
        const auto got = heap.allocate(n);
        ASSERT_EQ(got.has_value(), fits_somewhere(taken, n)) << "operation " << i;
        if (!got) continue;
        for (std::uint32_t g = 0; g < n; ++g) {
          ASSERT_FALSE(taken.at(*got + g)) << "operation " << i;
          taken[*got + g] = true;
        }
        live.emplace_back(*got, n);
      } else if (choice == 7) {
        const auto first = static_cast<std::uint32_t>(random() % (total + 2));
        const auto n = static_cast<std::uint32_t>(random() % (kRecordGranulesMax + 2));
        bool possible = n >= 1 && n <= kRecordGranulesMax && first <= total && n <= total - first;
        for (std::uint32_t g = 0; possible && g < n; ++g) possible = !taken[first + g];
        ASSERT_EQ(heap.reserve(first, n), possible) << "operation " << i;
        if (!possible) continue;
        std::fill_n(taken.begin() + first, n, true);
        live.emplace_back(first, n);
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        const auto [first, n] = live.back();
        live.pop_back();
        heap.free(first, n);
        std::fill_n(taken.begin() + first, n, false);
      }
      ASSERT_EQ(heap.used_granules(), std::count(taken.begin(), taken.end(), true));
    }
  }
}

TEST(RecordHeap, RebuiltFromItsRecordsItKnowsWhatIsFree) {
  auto random = seeded();
  RecordHeap before(5000);
  std::vector<Record> live;
  for (int i = 0; i < 20000; ++i) {
    const auto n = static_cast<std::uint32_t>(1 + random() % 5);
    if (const auto first = before.allocate(n)) live.emplace_back(*first, n);
    if (random() % 8 < 3 && !live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      before.free(live.back().first, live.back().second);
      live.pop_back();
    }
  }
  std::shuffle(live.begin(), live.end(), random);
  RecordHeap after(5000);
  for (const auto& [first, n] : live) ASSERT_TRUE(after.reserve(first, n));
  for (const auto& [first, n] : live) ASSERT_FALSE(after.reserve(first, n));
  EXPECT_EQ(after.used_granules(), before.used_granules());
  for (const auto& [first, n] : live) after.free(first, n);
  EXPECT_EQ(after.used_granules(), 0u);
  for (std::uint32_t i = 0; i < 5000 / 5; ++i) EXPECT_TRUE(after.allocate(5));
}

}  // namespace
}  // namespace sluice::store
