// record_heap.h: which 64-byte granules of the record region are taken.
//
// A record holds one object's id, spec and times. The heap's own state is the daemon's private
// memory; after a restart it is rebuilt from the slots with reserve(), in any order.
//
// Invariant: a granule is free or taken; free neighbours are one run as soon as allocate() or
//            free() was called.
// Threads:   the daemon's store loop only.
// Failure:   allocate() answers nothing when no run is long enough, reserve() false when a granule
//            is taken or outside. Freeing what is not taken is a bug and CHECKed.
// Cost:      O(1) for allocate() and free(); the first of them after reserve() walks the region's
//            bitmap once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/limits.h"

namespace sluice::store {

// The longest record: a fixed part of 64 bytes, a key of kKeyBytesMax, and one granule of slack.
inline constexpr std::uint32_t kRecordGranulesMax = (kKeyBytesMax + 64) / 64 + 1;

class RecordHeap {
 public:
  explicit RecordHeap(std::uint32_t granules);

  // The first of `granules` (1..kRecordGranulesMax) adjacent granules.
  std::optional<std::uint32_t> allocate(std::uint32_t granules);
  // Takes exactly these, for rebuilding.
  bool reserve(std::uint32_t first, std::uint32_t granules);
  void free(std::uint32_t first, std::uint32_t granules);

  std::uint32_t total_granules() const noexcept { return total_; }
  std::uint32_t used_granules() const noexcept { return used_; }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  // Runs of exactly 1..kRecordGranulesMax granules have a list each; one more list holds the longer
  // ones.
  static constexpr std::uint32_t kLists = kRecordGranulesMax + 1;
  struct Node {
    std::uint32_t next = kNone;  // valid in the first granule of a free run
    std::uint32_t prev = kNone;  // the same
    std::uint32_t length = 0;    // valid in the first and in the last granule of a free run
  };

  static std::uint32_t list_of(std::uint32_t length) noexcept;
  bool is_taken(std::uint32_t granule) const noexcept;
  bool all(std::uint32_t first, std::uint32_t granules, bool taken) const noexcept;
  void mark(std::uint32_t first, std::uint32_t granules, bool taken) noexcept;
  void link(std::uint32_t first, std::uint32_t length) noexcept;
  void unlink(std::uint32_t first) noexcept;
  void rebuild_lists();

  std::uint32_t total_ = 0;
  std::uint32_t used_ = 0;
  bool lists_stale_ = true;           // reserve() marks granules only
  std::vector<std::uint64_t> taken_;  // one bit per granule
  std::vector<Node> nodes_;
  std::array<std::uint32_t, kLists> heads_{};
  std::uint32_t nonempty_ = 0;  // one bit per list
  static_assert(kLists <= 32);
};

}  // namespace sluice::store
