// sieve.h: the order in which objects are evicted: SIEVE over slot numbers.
//
// New slots enter at the young end; a hand walks from the old end to the young one and starts
// over. A slot that was visited since the hand last passed loses its mark and stays; the first one
// without a mark is the victim. Whether a slot was visited, and whether it may go at all, the
// caller knows.
//
// Invariant: a slot is in the order at most once; the hand stands on a slot in it or at the old
//            end.
// Threads:   one owner; no shared memory.
// Failure:   inserting twice, or erasing what is not there, is a bug and CHECKed.
// Cost:      O(1); next_victim() at most `steps_max` looks.
// Source:    Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"

namespace sluice::store {

class Sieve {
 public:
  explicit Sieve(std::uint32_t slots_max);

  void insert(std::uint32_t slot);
  void erase(std::uint32_t slot);
  bool contains(std::uint32_t slot) const noexcept {
    return slot < nodes_.size() && nodes_[slot].listed;
  }
  std::uint32_t size() const noexcept { return size_; }

  // The looks after which "nothing" means that no slot is evictable: one round takes the marks, the
  // next finds.
  std::uint64_t full_search() const noexcept { return 2 * std::uint64_t{size_} + 1; }

  // take_visited(slot) says whether the slot was visited since the last call, and clears the mark.
  // It is asked only of slots for which evictable(slot) holds. The victim stays in the order until
  // erase(); another call goes on behind it. Soft pins: search with a predicate that refuses them,
  // and only when a full search found nothing with one that does not.
  template <class TakeVisited, class Evictable>
  std::optional<std::uint32_t> next_victim(TakeVisited&& take_visited, Evictable&& evictable,
                                           std::uint64_t steps_max) {
    for (std::uint64_t step = 0; step < steps_max && size_ != 0; ++step) {
      const std::uint32_t slot = hand_ == kNone ? oldest_ : hand_;
      hand_ = nodes_[slot].younger;
      if (evictable(slot) && !take_visited(slot)) return slot;
    }
    return std::nullopt;
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Node {
    std::uint32_t younger = kNone;
    std::uint32_t older = kNone;
    bool listed = false;
  };

  std::vector<Node> nodes_;
  std::uint32_t oldest_ = kNone;
  std::uint32_t youngest_ = kNone;
  std::uint32_t hand_ = kNone;  // kNone: the old end
  std::uint32_t size_ = 0;
};

}  // namespace sluice::store
