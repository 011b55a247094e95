// slot.h: the 64-byte record of one reservation or object, and the one atomic word that says what
// it is.
//
// Invariant: only the daemon writes slots. `word` is {generation:32 | state:8}; every other field
//            changes only while the state is free, and is read by others only under a lease on that
//            generation (or as a hint that is checked again). The slots are the only truth about
//            extents.
// Layout:    part of the control segment (docs/formats/control-segment.md); every field is one
//            atomic 64-bit word.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/checksum.h"

namespace sluice::store {

enum class SlotState : std::uint8_t {
  kEmpty = 0,      // never used, or swept: a probe ends here
  kTombstone = 1,  // free, but a probe goes on
  kReserved = 2,
  kExpired = 3,  // can no longer be published; the producer has not said that it stopped writing
  kPublished = 4,
  kRetired = 5,  // no new leases; waits for two clean scans
};

constexpr bool is_free(SlotState s) noexcept {
  return s == SlotState::kEmpty || s == SlotState::kTombstone;
}

struct SlotWord {
  SlotState state = SlotState::kEmpty;
  std::uint32_t generation = 0;

  bool operator==(const SlotWord&) const = default;
};

constexpr std::uint64_t pack(SlotWord w) noexcept {
  return static_cast<std::uint64_t>(w.generation) << 32 | static_cast<std::uint64_t>(w.state);
}

constexpr SlotWord unpack_slot_word(std::uint64_t w) noexcept {
  return {static_cast<SlotState>(w & 0xFF), static_cast<std::uint32_t>(w >> 32)};
}

// `pin` of a published slot: 0, an Instant until which it is soft-pinned, or this.
inline constexpr std::uint64_t kHardPin = UINT64_MAX;

inline constexpr std::uint32_t kNoRecord = UINT32_MAX;

struct alignas(64) Slot {
  std::atomic<std::uint64_t> word;
  std::atomic<std::uint64_t> hash_low;
  std::atomic<std::uint64_t> hash_high;
  std::atomic<std::uint64_t> reservation;  // 64-bit number, never repeated; kept after publish
  std::atomic<std::uint64_t> extent;       // arena::pack_extent: segment:16 | first page:48
  std::atomic<std::uint64_t> extent_info;  // pages:32 | owner:16
  std::atomic<std::uint64_t>
      record_info;  // first granule:32 | granules:16; kNoRecord in the grant table
  std::atomic<std::uint64_t> deadline_or_pin;  // reserved: Instant of expiry; published: pin

  SlotWord load(std::memory_order order = std::memory_order_acquire) const noexcept {
    return unpack_slot_word(word.load(order));
  }
  Hash128 hash() const noexcept {
    return {hash_low.load(std::memory_order_acquire), hash_high.load(std::memory_order_acquire)};
  }
};
static_assert(sizeof(Slot) == 64 && alignof(Slot) == 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

struct ExtentInfo {
  std::uint32_t pages = 0;
  std::uint16_t owner = 0;
};
constexpr std::uint64_t pack(ExtentInfo i) noexcept {
  return static_cast<std::uint64_t>(i.pages) << 32 | i.owner;
}
constexpr ExtentInfo unpack_extent_info(std::uint64_t v) noexcept {
  return {static_cast<std::uint32_t>(v >> 32), static_cast<std::uint16_t>(v)};
}

struct RecordInfo {
  std::uint32_t granule = kNoRecord;
  std::uint16_t granules = 0;
};
constexpr std::uint64_t pack(RecordInfo i) noexcept {
  return static_cast<std::uint64_t>(i.granule) << 32 | i.granules;
}
constexpr RecordInfo unpack_record_info(std::uint64_t v) noexcept {
  return {static_cast<std::uint32_t>(v >> 32), static_cast<std::uint16_t>(v)};
}

// A lease as it stands in a client page: 0, or {slot + 1, generation}.
constexpr std::uint64_t lease_word(std::uint32_t slot, std::uint32_t generation) noexcept {
  return static_cast<std::uint64_t>(slot + 1) << 32 | generation;
}

}  // namespace sluice::store
