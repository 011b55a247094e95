// fragmentation_probe: why ExtentAllocator places extents by best fit. Prints how full arenas get
// under other policies, in the same churn (churn.h), and takes the first seed as its argument.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "arena/churn.h"
#include "arena/extent_allocator.h"

namespace {

using sluice::kPageBytes;
using sluice::arena::churn;
using sluice::arena::ChurnOptions;
using sluice::arena::Extent;
using sluice::arena::ExtentAllocator;
using sluice::arena::Removal;

constexpr std::uint64_t kMiB = 1 << 20;

enum class Fit { kFirst, kLast, kWorst, kSides };

// One segment, free runs by address, placed by a policy; slow and simple.
class OtherAllocator {
 public:
  OtherAllocator(std::uint64_t bytes, Fit fit) : fit_(fit) { runs_[0] = bytes; }

  std::optional<Extent> allocate(std::uint64_t wanted) {
    const std::uint64_t bytes = (wanted + kPageBytes - 1) / kPageBytes * kPageBytes;
    const bool from_above = fit_ == Fit::kLast || (fit_ == Fit::kSides && bytes < 15 * kMiB);
    auto chosen = runs_.end();
    for (auto run = runs_.begin(); run != runs_.end(); ++run) {
      if (run->second < bytes) continue;
      const bool better = chosen == runs_.end() || from_above ||
                          (fit_ == Fit::kWorst && run->second > chosen->second);
      if (better) chosen = run;
    }
    if (chosen == runs_.end()) return std::nullopt;
    const auto [offset, length] = *chosen;
    runs_.erase(chosen);
    if (from_above) {
      if (length > bytes) runs_[offset] = length - bytes;
      return Extent{.segment = 0, .offset = offset + length - bytes, .bytes = bytes};
    }
    if (length > bytes) runs_[offset + bytes] = length - bytes;
    return Extent{.segment = 0, .offset = offset, .bytes = bytes};
  }

  void free(const Extent& extent) {
    auto run = runs_.emplace(extent.offset, extent.bytes).first;
    if (const auto next = std::next(run);
        next != runs_.end() && run->first + run->second == next->first) {
      run->second += next->second;
      runs_.erase(next);
    }
    if (run == runs_.begin()) return;
    if (const auto before = std::prev(run); before->first + before->second == run->first) {
      before->second += run->second;
      runs_.erase(run);
    }
  }

 private:
  Fit fit_;
  std::map<std::uint64_t, std::uint64_t> runs_;
};

// Best fit over sizes that were rounded up first.
class Rounded {
 public:
  using Round = std::function<std::uint64_t(std::uint64_t)>;
  Rounded(std::uint64_t bytes, Round round)
      : allocator_(std::vector<std::uint64_t>{bytes}), round_(std::move(round)) {}
  std::optional<Extent> allocate(std::uint64_t bytes) { return allocator_.allocate(round_(bytes)); }
  void free(const Extent& extent) { allocator_.free(extent); }

 private:
  ExtentAllocator allocator_;
  Round round_;
};

std::uint64_t to_mebibytes(std::uint64_t bytes) {
  return (bytes + kMiB - 1) / kMiB * kMiB;
}

std::uint64_t to_eighths_of_a_doubling(std::uint64_t bytes) {
  const std::uint64_t step = std::max(std::bit_floor(bytes) / 8, kPageBytes);
  return (bytes + step - 1) / step * step;
}

std::uint64_t to_power_of_two(std::uint64_t bytes) {
  return std::bit_ceil(bytes);
}

using Run = std::function<sluice::arena::ChurnResult(const ChurnOptions&)>;
struct Policy {
  std::string_view name;
  Run run;
};

Run other(Fit fit) {
  return [fit](const ChurnOptions& options) {
    OtherAllocator allocator(options.arena_bytes, fit);
    return churn(allocator, options);
  };
}

Run rounded(std::uint64_t (*round)(std::uint64_t)) {
  return [round](const ChurnOptions& options) {
    Rounded allocator(options.arena_bytes, round);
    return churn(allocator, options);
  };
}

std::uint64_t as_it_is(std::uint64_t bytes) {
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  constexpr std::uint64_t kSeeds = 5;
  const std::vector<Policy> policies{
      {"best fit (ExtentAllocator)", rounded(as_it_is)},
      {"first fit", other(Fit::kFirst)},
      {"last fit", other(Fit::kLast)},
      {"worst fit", other(Fit::kWorst)},
      {"first fit, small from above", other(Fit::kSides)},
      {"best fit, rounded to 1 MiB", rounded(to_mebibytes)},
      {"best fit, 8 sizes a doubling", rounded(to_eighths_of_a_doubling)},
      {"best fit, powers of two", rounded(to_power_of_two)},
  };
  fmt::print(
      "Payload / arena when a request of 0.1 to 30 MB does not fit, mean of {} seeds from {}.\n\n"
      "{:<30}{:^24}   {:^24}\n{:<30}",
      kSeeds, seed, "objects removed:", "at random", "oldest first", "");
  for (const auto* gap : {"   ", ""}) {
    fmt::print("{:>8}{:>8}{:>8}{}", "1 GiB", "2 GiB", "4 GiB", gap);
  }
  fmt::print("\n");
  for (const Policy& policy : policies) {
    fmt::print("{:<30}", policy.name);
    for (const Removal removal : {Removal::kRandom, Removal::kOldestFirst}) {
      for (const std::uint64_t gib : {1, 2, 4}) {
        double sum = 0;
        for (std::uint64_t i = 0; i < kSeeds; ++i) {
          sum += policy.run({.arena_bytes = gib << 30, .removal = removal, .seed = seed + i})
                     .mean_share;
        }
        fmt::print("{:>8.3f}", sum / kSeeds);
      }
      fmt::print("   ");
    }
    fmt::print("\n");
  }
  return 0;
}
