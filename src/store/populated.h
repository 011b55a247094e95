// populated.h: which parts of a segment's mapping have been mapped in, so that nobody pays for them
// twice.
//
// A fresh mapping has no page-table entries. A copy into it takes a fault for each page, four times
// as long as the copy itself; mapping a window in at once takes about half the time of the copy,
// and a helper thread does it off the caller's path. This is about speed only: nothing depends on a
// window being in.
//
// Threads: any. Two threads may map the same window in; that costs time, nothing else.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "arena/shared_segment.h"

namespace sluice::store {

inline constexpr std::uint64_t kPopulateWindowBytes = 4u << 20;

class PopulatedWindows {
 public:
  // `mapping` is shared memory and outlives this.
  explicit PopulatedWindows(std::span<std::byte> mapping)
      : mapping_(mapping),
        done_((mapping.size() + kPopulateWindowBytes - 1) / kPopulateWindowBytes) {}

  // Maps in every window that [offset, offset + bytes) touches and that is not in yet. Requires a
  // range inside the mapping. A read fault is enough for writing too, since shared memory asks for
  // no notice of a first write, and it brings its neighbours: 0.9 ms for 16 MiB, where write faults
  // take 2.7 ms.
  Status populate(std::uint64_t offset, std::uint64_t bytes) noexcept {
    if (bytes == 0) return {};
    const std::uint64_t last = (offset + bytes - 1) / kPopulateWindowBytes;
    for (std::uint64_t window = offset / kPopulateWindowBytes; window <= last; ++window) {
      if (done_[window].load(std::memory_order_relaxed)) continue;
      const std::uint64_t at = window * kPopulateWindowBytes;
      const std::uint64_t size =
          std::min<std::uint64_t>(kPopulateWindowBytes, mapping_.size() - at);
      if (auto in = arena::populate(mapping_.subspan(at, size), arena::Touch::kRead); !in)
        return in;
      done_[window].store(true, std::memory_order_relaxed);
    }
    return {};
  }

 private:
  std::span<std::byte> mapping_;
  std::vector<std::atomic<bool>> done_;
};

}  // namespace sluice::store
