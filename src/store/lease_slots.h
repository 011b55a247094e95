// lease_slots.h: which lease words of this process's page are in use. Private to the process.
//
// Invariant: an index is given to one holder at a time. Low indexes first, so that the daemon has
//            few words to scan.
// Threads:   any; one atomic operation per claim when the first word has room.
// Limits:    kLeasesPerClient leases; then claim() answers nothing.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>

#include "base/limits.h"

namespace sluice::store {

class LeaseSlots {
 public:
  std::optional<std::uint32_t> claim() noexcept {
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
      std::uint64_t used = words_[w].load(std::memory_order_relaxed);
      while (used != UINT64_MAX) {
        const int bit = std::countr_one(used);
        if (words_[w].compare_exchange_weak(used, used | std::uint64_t{1} << bit,
                                            std::memory_order_acquire)) {
          return w * 64 + static_cast<std::uint32_t>(bit);
        }
      }
    }
    return std::nullopt;
  }

  void give_back(std::uint32_t index) noexcept {
    words_[index / 64].fetch_and(~(std::uint64_t{1} << (index % 64)), std::memory_order_release);
  }

  bool none() const noexcept {
    for (const auto& word : words_) {
      if (word.load(std::memory_order_acquire) != 0) return false;
    }
    return true;
  }

 private:
  static_assert(kLeasesPerClient % 64 == 0);
  std::array<std::atomic<std::uint64_t>, kLeasesPerClient / 64> words_{};
};

}  // namespace sluice::store
