// reservation.h: the life of one slot, as a pure state machine (R11): what an event makes of a
// state.
//
//   free --reserve--> reserved --publish--> published --remove, evict--> retired --2 clean
//   passes--> free
//                     reserved --expire---> expired
//                     reserved, expired --abort, owner died--> free
//                     expired --publish, refused-------------> free
//
// A keyless grant stands in the grant table; its publish makes an index slot published (kInstall)
// and only then empties the grant slot (kHandOver). For that moment two slots name one extent; an
// extent is free only when every slot that names it is.
//
// Invariant: an extent is released only on abort, death or publish of its writer, or after two
//            clean passes in a row; never because a timer ran out.
// Threads:   pure functions.
// Failure:   an event that a state refuses carries the code to answer with.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <sluice/error.h>

#include "store/slot.h"

namespace sluice::store {

inline constexpr std::uint32_t kSlotStates = 6;

enum class SlotEvent : std::uint8_t {
  kReserve,      // a producer asks for this key, or for a grant
  kInstall,      // a grant is published into this index slot
  kPublish,      // of the reservation that stands in this slot (number compared by the caller)
  kPublishLost,  // the same, but another slot already shows this key
  kHandOver,     // this grant's extent now stands in an index slot
  kAbort,        // the producer gives up and has stopped writing
  kExpire,       // the reservation's deadline passed
  kRemove,       // asked for by a client
  kEvict,        // to make room
  kOwnerDied,
  kScanCleanPass,  // one pass over all client pages found no lease on {slot, generation}
  kScanDirtyPass,  // it found one
  kSweep,          // the next slot is empty
};
inline constexpr std::uint32_t kSlotEvents = 13;

inline constexpr std::uint8_t kCleanPassesToFree = 2;

// What is known of a slot: its shared state, and the daemon's private count of clean passes in a
// row.
struct SlotLife {
  SlotState state = SlotState::kEmpty;
  std::uint8_t clean_passes = 0;  // 0 unless retired

  bool operator==(const SlotLife&) const = default;
};

// Effects, as bits.
using Effects = std::uint16_t;
namespace effect {
inline constexpr Effects kNewGeneration =
    1u << 0;  // fields first, then {next state, generation + 1} in one store
inline constexpr Effects kFreeExtent =
    1u << 1;  // extent, record and prefix go back, after the state was stored
inline constexpr Effects kWakeKeyWaiters = 1u << 2;  // look-ups of this key change their answer
inline constexpr Effects kWakeSpaceWaiters = 1u << 3;
inline constexpr Effects kScan =
    1u << 4;  // look through the client pages before anything else happens to it
inline constexpr Effects kOtherSlot = 1u << 5;    // the key is free, this slot is not: use another
inline constexpr Effects kCompareSpec = 1u << 6;  // already there: duplicate or conflict (R8)
inline constexpr Effects kCountPublished = 1u << 7;
inline constexpr Effects kCountExpired = 1u << 8;
inline constexpr Effects kCountAbandoned = 1u << 9;
inline constexpr Effects kCountRemoved = 1u << 10;
inline constexpr Effects kCountEvicted = 1u << 11;
inline constexpr Effects kCountOfDead = 1u << 12;
}  // namespace effect

struct Step {
  SlotLife next;
  Effects effects = 0;
  std::optional<Code> refuse;  // the event did not do what it asked for

  constexpr bool has(Effects bits) const noexcept { return (effects & bits) == bits; }
  bool operator==(const Step&) const = default;
};

// The producer may still write the extent.
constexpr bool is_being_written(SlotState state) noexcept {
  return state == SlotState::kReserved || state == SlotState::kExpired;
}

std::string_view name(SlotState state) noexcept;
std::string_view name(SlotEvent event) noexcept;

// All states x all events. A state read from shared memory that is none of the six is treated as
// retired.
Step advance(SlotLife life, SlotEvent event) noexcept;

}  // namespace sluice::store
