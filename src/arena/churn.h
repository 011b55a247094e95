// churn.h: how full an arena is when a request does not fit any more, after long use. Tests only.
//
// Objects of uniformly random size come and go. A request that does not fit is counted with the
// share of payload at that moment; then objects are removed until it fits. So the arena is always
// as full as its placement allows.
//
// Threads: one owner. The same seed gives the same run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <utility>

#include "arena/extent.h"

namespace sluice::arena {

enum class Removal : std::uint8_t {
  kRandom,       // the worst case: nothing in the order helps
  kOldestFirst,  // about what an eviction order does
};

struct ChurnOptions {
  std::uint64_t arena_bytes = std::uint64_t{1} << 30;
  std::uint64_t object_bytes_min = 100'000;
  std::uint64_t object_bytes_max = 30'000'000;
  Removal removal = Removal::kRandom;
  std::uint64_t seed = 1;
  int requests = 20'000;
  int requests_before_counting = 5'000;
};

struct ChurnResult {
  double mean_share = 0;  // payload / arena when a request failed first
  double min_share = 1;
};

// Allocator: std::optional<Extent> allocate(bytes), void free(Extent).
template <class Allocator>
ChurnResult churn(Allocator& allocator, const ChurnOptions& options) {
  struct Object {
    Extent extent;
    std::uint64_t bytes = 0;
  };
  std::mt19937_64 random(options.seed);
  std::deque<Object> live;
  std::uint64_t payload_bytes = 0;
  double sum = 0;
  int failures = 0;
  ChurnResult result;

  const auto remove_one = [&] {
    if (options.removal == Removal::kRandom) std::swap(live[random() % live.size()], live.front());
    allocator.free(live.front().extent);
    payload_bytes -= live.front().bytes;
    live.pop_front();
  };
  const std::uint64_t range = options.object_bytes_max - options.object_bytes_min + 1;
  for (int request = 0; request < options.requests; ++request) {
    const std::uint64_t bytes = options.object_bytes_min + random() % range;
    auto extent = allocator.allocate(bytes);
    if (!extent && request >= options.requests_before_counting) {
      const double share =
          static_cast<double>(payload_bytes) / static_cast<double>(options.arena_bytes);
      sum += share;
      ++failures;
      if (share < result.min_share) result.min_share = share;
    }
    while (!extent && !live.empty()) {
      remove_one();
      extent = allocator.allocate(bytes);
    }
    if (!extent) return {.mean_share = 0, .min_share = 0};  // an object larger than the arena
    live.push_back({.extent = *extent, .bytes = bytes});
    payload_bytes += bytes;
  }
  result.mean_share = failures == 0 ? 0 : sum / failures;
  return result;
}

}  // namespace sluice::arena
