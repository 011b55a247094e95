// extent_allocator.h: which pages of the data segments are taken.
//
// The daemon's private memory; after a restart it is rebuilt from the slots with reserve().
//
// Invariant: the free runs are disjoint, maximal (no two touch) and never span two segments;
//            free_bytes() + used_bytes() is the size of all whole pages of all segments.
// Threads:   the daemon's store loop only.
// Failure:   allocate() answers nothing and reserve() false. Freeing what is not taken, or
//            trimming to more than there is, is a bug and CHECKed.
// Cost:      O(log free runs) for every call.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "arena/extent.h"

namespace sluice::arena {

class ExtentAllocator {
 public:
  // One entry per segment; a tail that is no whole page is never given out. At most kSegmentsMax
  // segments.
  explicit ExtentAllocator(std::span<const std::uint64_t> segment_bytes);

  // A run of at least `bytes`, rounded up to pages. Nothing when bytes is 0 or no free run is long
  // enough.
  std::optional<Extent> allocate(std::uint64_t bytes);

  // Takes exactly this extent; false when it is malformed, leaves its segment or overlaps a taken
  // page.
  bool reserve(const Extent& extent);

  // Gives an allocated extent back, or a part of one that trim() has not given back.
  void free(const Extent& extent);

  // Gives the tail beyond `bytes` (rounded up to pages, at least one page stays) back and returns
  // what remains.
  Extent trim(const Extent& extent, std::uint64_t bytes);

  std::uint64_t total_bytes() const noexcept { return total_pages_ * kPageBytes; }
  std::uint64_t free_bytes() const noexcept { return free_pages_ * kPageBytes; }
  std::uint64_t used_bytes() const noexcept { return total_bytes() - free_bytes(); }
  std::uint64_t largest_free() const noexcept;
  std::size_t free_runs() const noexcept { return by_start_.size(); }

 private:
  // Pages of all segments are numbered in one row with one page between two segments that belongs
  // to neither, so that runs of two segments never touch.
  struct Segment {
    std::uint64_t first = 0;
    std::uint64_t pages = 0;
  };
  struct Run {
    std::uint64_t first = 0;
    std::uint64_t pages = 0;
  };

  std::optional<Run> to_run(const Extent& extent) const noexcept;
  Extent to_extent(const Run& run) const noexcept;
  void add(const Run& run);
  void remove(const Run& run);
  void carve(const Run& from, const Run& taken);

  std::vector<Segment> segments_;
  std::map<std::uint64_t, std::uint64_t> by_start_;              // first page -> pages
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_length_;  // {pages, first page}
  std::uint64_t total_pages_ = 0;
  std::uint64_t free_pages_ = 0;
};

}  // namespace sluice::arena
