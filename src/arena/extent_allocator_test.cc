#include "arena/extent_allocator.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "arena/churn.h"

namespace sluice::arena {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(Extent, PackedStartNamesEverySegmentAndPage) {
  for (const std::uint32_t segment : {0u, 1u, 63u, 65535u}) {
    for (const std::uint64_t page : {std::uint64_t{0}, std::uint64_t{1}, kPackedPagesMax - 1}) {
      const Extent e{.segment = segment, .offset = page * kPageBytes, .bytes = kPageBytes};
      EXPECT_EQ(unpack_extent(pack_extent(e), kPageBytes), e);
    }
  }
}

TEST(Extent, GarbageNeverLiesInsideASegment) {
  const std::uint64_t size = 16 * kPageBytes;
  EXPECT_TRUE(inside({.segment = 0, .offset = 0, .bytes = size}, size));
  EXPECT_FALSE(inside({.segment = 0, .offset = 0, .bytes = 0}, size));
  EXPECT_FALSE(inside({.segment = 0, .offset = 1, .bytes = kPageBytes}, size));
  EXPECT_FALSE(inside({.segment = 0, .offset = 0, .bytes = kPageBytes + 1}, size));
  EXPECT_FALSE(inside({.segment = 0, .offset = size, .bytes = kPageBytes}, size));
  const std::uint64_t huge = ~std::uint64_t{0} & ~(kPageBytes - 1);
  EXPECT_FALSE(inside({.segment = 0, .offset = huge, .bytes = 2 * kPageBytes}, size));
  EXPECT_FALSE(inside({.segment = 0, .offset = kPageBytes, .bytes = huge}, size));
}

TEST(ExtentAllocator, SegmentsNeverGrowTogether) {
  const std::vector<std::uint64_t> sizes{4 * kPageBytes, 3 * kPageBytes + 100, 0, 4 * kPageBytes};
  ExtentAllocator a(sizes);
  EXPECT_EQ(a.total_bytes(), 11 * kPageBytes);
  EXPECT_FALSE(a.allocate(5 * kPageBytes));
  const auto x = a.allocate(4 * kPageBytes);
  const auto y = a.allocate(4 * kPageBytes);
  ASSERT_TRUE(x && y);
  EXPECT_NE(x->segment, y->segment);
  EXPECT_FALSE(a.reserve({.segment = 2, .offset = 0, .bytes = kPageBytes}));
  EXPECT_FALSE(a.reserve({.segment = 1, .offset = 3 * kPageBytes, .bytes = kPageBytes}));
  EXPECT_FALSE(a.reserve({.segment = 9, .offset = 0, .bytes = kPageBytes}));
  a.free(*x);
  a.free(*y);
  EXPECT_EQ(a.largest_free(), 4 * kPageBytes);
  EXPECT_EQ(a.free_runs(), 3u);
}

TEST(ExtentAllocator, TheSmallestHoleThatFitsIsTakenAndTheLowestOfEqualOnes) {
  const std::vector<std::uint64_t> sizes{64 * kPageBytes};
  ExtentAllocator a(sizes);
  std::vector<Extent> e;
  for (const std::uint64_t pages : {8, 1, 5, 1, 8, 1, 5, 1}) {
    e.push_back(*a.allocate(pages * kPageBytes));
  }
  for (const std::size_t i : {0, 2, 4, 6}) a.free(e[i]);
  EXPECT_EQ(a.allocate(4 * kPageBytes)->offset, e[2].offset);
  EXPECT_EQ(a.allocate(6 * kPageBytes)->offset, e[0].offset);
}

TEST(ExtentAllocator, ZeroBytesAndMoreThanThereIsAreRefused) {
  const std::vector<std::uint64_t> sizes{kMiB};
  ExtentAllocator a(sizes);
  EXPECT_FALSE(a.allocate(0));
  EXPECT_FALSE(a.allocate(kMiB + 1));
  EXPECT_FALSE(a.allocate(~std::uint64_t{0}));
  EXPECT_TRUE(a.allocate(kMiB));
  EXPECT_EQ(a.largest_free(), 0u);
}

TEST(ExtentAllocator, TrimGivesTheTailBackAndKeepsAPage) {
  const std::vector<std::uint64_t> sizes{kMiB};
  ExtentAllocator a(sizes);
  const auto e = *a.allocate(10 * kPageBytes);
  const auto kept = a.trim(e, 3 * kPageBytes + 1);
  EXPECT_EQ(kept.bytes, 4 * kPageBytes);
  EXPECT_EQ(a.used_bytes(), 4 * kPageBytes);
  EXPECT_EQ(a.trim(kept, kept.bytes), kept);
  EXPECT_EQ(a.trim(kept, 0).bytes, kPageBytes);
  EXPECT_EQ(a.used_bytes(), kPageBytes);
}

TEST(ExtentAllocatorDeathTest, FreeingTwiceIsCaught) {
  const std::vector<std::uint64_t> sizes{kMiB};
  ExtentAllocator a(sizes);
  const auto low = *a.allocate(2 * kPageBytes);
  const auto middle = *a.allocate(2 * kPageBytes);
  const auto high = *a.allocate(2 * kPageBytes);
  a.free(middle);
  EXPECT_DEATH(a.free(middle), "bug: CHECK");
  EXPECT_DEATH(a.free({.segment = 0, .offset = low.offset, .bytes = 3 * kPageBytes}), "bug: CHECK");
  EXPECT_DEATH(
      a.free({.segment = 0, .offset = middle.offset + kPageBytes, .bytes = 2 * kPageBytes}),
      "bug: CHECK");
  EXPECT_DEATH(a.free({.segment = 1, .offset = 0, .bytes = kPageBytes}), "bug: CHECK");
  EXPECT_DEATH(a.trim(high, 3 * kPageBytes), "bug: CHECK");
}

// --- random operations against a naive model: one flag per page -------------------------------

enum class Kind { kAllocate, kFree, kTrim, kReserve };

// Everything is a number, so that a failing list can be cut down and still mean something.
struct Operation {
  Kind kind = Kind::kAllocate;
  std::uint64_t a = 0;  // bytes, or which live extent
  std::uint64_t b = 0;
  std::uint64_t c = 0;
};

std::ostream& operator<<(std::ostream& out, const Operation& o) {
  return out << "{" << static_cast<int>(o.kind) << ", " << o.a << ", " << o.b << ", " << o.c << "}";
}

class PageMap {
 public:
  explicit PageMap(std::span<const std::uint64_t> segment_bytes) {
    for (const auto bytes : segment_bytes) taken_.emplace_back(bytes / kPageBytes, false);
  }
  bool legal(const Extent& e) const {
    return e.segment < taken_.size() && inside(e, taken_[e.segment].size() * kPageBytes);
  }
  bool all(const Extent& e, bool taken) const {
    const auto from = taken_[e.segment].begin() + static_cast<long>(e.offset / kPageBytes);
    return std::all_of(from, from + static_cast<long>(e.bytes / kPageBytes),
                       [=](bool t) { return t == taken; });
  }
  void set(const Extent& e, bool taken) {
    const auto from = taken_[e.segment].begin() + static_cast<long>(e.offset / kPageBytes);
    std::fill_n(from, e.bytes / kPageBytes, taken);
  }
  // Lengths of the free runs, in pages.
  std::vector<std::uint64_t> free_runs() const {
    std::vector<std::uint64_t> runs;
    for (const auto& segment : taken_) {
      std::uint64_t run = 0;
      for (const bool t : segment) {
        if (t && run != 0) runs.push_back(run);
        run = t ? 0 : run + 1;
      }
      if (run != 0) runs.push_back(run);
    }
    return runs;
  }

 private:
  std::vector<std::vector<bool>> taken_;
};

// Runs the list; returns what went wrong, or an empty text.
std::string run(std::span<const std::uint64_t> sizes, const std::vector<Operation>& operations) {
  ExtentAllocator allocator(sizes);
  PageMap map(sizes);
  std::vector<Extent> live;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& o = operations[i];
    const auto at = " at operation " + std::to_string(i);
    const auto runs = map.free_runs();
    const auto longest = runs.empty() ? 0 : *std::max_element(runs.begin(), runs.end());
    if (o.kind == Kind::kAllocate) {
      const auto got = allocator.allocate(o.a);
      const auto pages = o.a / kPageBytes + (o.a % kPageBytes != 0);
      const bool possible = o.a != 0 && pages <= longest;
      if (got.has_value() != possible) return "allocate answers wrongly" + at;
      if (!got) continue;
      if (got->bytes != pages * kPageBytes || !map.legal(*got)) return "malformed extent" + at;
      if (!map.all(*got, false)) return "gave out what is taken" + at;
      map.set(*got, true);
      live.push_back(*got);
    } else if (o.kind == Kind::kReserve) {
      const Extent wish{.segment = static_cast<std::uint32_t>(o.a), .offset = o.b, .bytes = o.c};
      const bool possible = map.legal(wish) && map.all(wish, false);
      if (allocator.reserve(wish) != possible) return "reserve answers wrongly" + at;
      if (!possible) continue;
      map.set(wish, true);
      live.push_back(wish);
    } else if (!live.empty()) {
      const std::size_t which = o.a % live.size();
      const Extent e = live[which];
      if (o.kind == Kind::kTrim) {
        const std::uint64_t bytes = o.b % (e.bytes + 1);
        live[which] = allocator.trim(e, bytes);
        if (live[which].bytes < bytes || live[which].bytes > std::max(e.bytes, kPageBytes)) {
          return "trimmed to a wrong length" + at;
        }
        map.set(e, false);
        map.set(live[which], true);
      } else {
        allocator.free(e);
        map.set(e, false);
        live[which] = live.back();
        live.pop_back();
      }
    }
    const auto after = map.free_runs();
    std::uint64_t free_pages = 0, largest = 0;
    for (const auto n : after) free_pages += n, largest = std::max(largest, n);
    if (allocator.free_bytes() != free_pages * kPageBytes) return "free_bytes is off" + at;
    if (allocator.used_bytes() + allocator.free_bytes() != allocator.total_bytes()) {
      return "used_bytes is off" + at;
    }
    if (allocator.largest_free() != largest * kPageBytes) return "largest_free is off" + at;
    if (allocator.free_runs() != after.size()) return "neighbours were not joined" + at;
  }
  return {};
}

// Drops ever smaller pieces of the list while what is left still fails.
std::vector<Operation> shrink(std::span<const std::uint64_t> sizes, std::vector<Operation> list) {
  for (std::size_t piece = list.size() / 2; piece != 0; piece /= 2) {
    for (std::size_t at = 0; at < list.size();) {
      auto shorter = list;
      const auto from = shorter.begin() + static_cast<long>(at);
      shorter.erase(from, from + static_cast<long>(std::min(piece, list.size() - at)));
      if (run(sizes, shorter).empty()) {
        at += piece;
      } else {
        list = std::move(shorter);
      }
    }
  }
  return list;
}

Operation random_operation(std::mt19937_64& random, std::span<const std::uint64_t> sizes) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  Operation o{.kind = static_cast<Kind>(below(4)), .a = random(), .b = random(), .c = 0};
  if (o.kind == Kind::kAllocate) o.a = below(below(8) == 0 ? 70 * kPageBytes : 9 * kPageBytes);
  if (o.kind == Kind::kReserve) {
    o = {.kind = o.kind,
         .a = below(sizes.size() + 1),
         .b = below(66) * kPageBytes + (below(16) == 0 ? 1 : 0),
         .c = below(8) * kPageBytes + (below(16) == 0 ? 1 : 0)};
    if (below(32) == 0) o.c = random() & ~(kPageBytes - 1);
  }
  return o;
}

TEST(ExtentAllocator, BehavesLikeABitmapUnderRandomOperations) {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const std::uint64_t seed = given ? std::stoull(given) : std::random_device{}();
  std::cout << "SLUICE_TEST_SEED=" << seed << "\n";
  const std::vector<std::uint64_t> sizes{64 * kPageBytes, 7 * kPageBytes, kPageBytes,
                                         33 * kPageBytes};
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60; ++round) {
    std::vector<Operation> operations(400);
    for (auto& o : operations) o = random_operation(random, sizes);
    const std::string wrong = run(sizes, operations);
    if (wrong.empty()) continue;
    std::ostringstream text;
    const auto shortest = shrink(sizes, operations);
    for (const auto& o : shortest) text << o << " ";
    FAIL() << run(sizes, shortest) << "; seed " << seed << ", shortest list: " << text.str();
  }
}

// What a restart does: the extents of the slots, in any order, make the same allocator again.
TEST(ExtentAllocator, RebuiltFromItsExtentsItIsTheSameAgain) {
  std::mt19937_64 random(11);
  const std::vector<std::uint64_t> sizes{512 * kPageBytes, 100 * kPageBytes};
  ExtentAllocator before(sizes);
  std::vector<Extent> live;
  for (int i = 0; i < 3000; ++i) {
    if (const auto e = before.allocate((1 + random() % 20) * kPageBytes); e && random() % 3 != 0) {
      live.push_back(*e);
    } else if (e) {
      before.free(*e);
    } else {
      std::swap(live[random() % live.size()], live.back());
      before.free(live.back());
      live.pop_back();
    }
  }
  std::shuffle(live.begin(), live.end(), random);
  ExtentAllocator after(sizes);
  for (const auto& e : live) ASSERT_TRUE(after.reserve(e));
  for (const auto& e : live) ASSERT_FALSE(after.reserve(e)) << "the same extent twice";
  EXPECT_EQ(after.free_bytes(), before.free_bytes());
  EXPECT_EQ(after.largest_free(), before.largest_free());
  EXPECT_EQ(after.free_runs(), before.free_runs());
}

// The arena is kept as full as it gets, with sizes of 0.1 to 30 MB; see fragmentation_probe for other
// policies and for removal in the order of age, where it holds more.
TEST(ExtentAllocator, AfterLongChurnAFullArenaHolds88PercentPayload) {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const std::uint64_t seed = given ? std::stoull(given) : std::random_device{}();
  std::cout << "SLUICE_TEST_SEED=" << seed << "\n";
  for (const std::uint64_t gib : {1, 2, 4}) {
    for (const Removal removal : {Removal::kRandom, Removal::kOldestFirst}) {
      const std::vector<std::uint64_t> sizes{gib << 30};
      ExtentAllocator allocator(sizes);
      const auto result =
          churn(allocator, {.arena_bytes = gib << 30, .removal = removal, .seed = seed});
      std::cout << gib << " GiB: " << result.mean_share << ", at least " << result.min_share
                << "\n";
      EXPECT_GE(result.mean_share, 0.88) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace sluice::arena
