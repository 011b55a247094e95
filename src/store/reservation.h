// reservation.h: the life of one slot, as a pure state machine (R11): what an event makes of it.
//
//   free      reserve -> reserved       install -> published
//   reserved  publish -> published      expire -> expired       abort, owner died, lost -> free
//   expired   publish (refused), abort, owner died -> free
//   published remove, evict -> retired
//   retired   two clean passes in a row -> free
//
// A keyless grant stands in the grant table. Its publish makes an index slot published (kInstall)
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
  kReserve,        // a producer asks for this key, or for a grant
  kInstall,        // a grant is published into this index slot
  kPublish,        // of the reservation that stands here; the caller compared its number
  kPublishLost,    // the same, but another slot already shows this key
  kHandOver,       // the extent of this grant now stands in an index slot too
  kAbort,          // the producer gives up and says that it has stopped writing
  kExpire,         // the reservation's deadline passed
  kRemove,         // a client asks for it
  kEvict,          // to make room
  kOwnerDied,      // the kernel says so
  kScanCleanPass,  // one pass over all client pages found no lease on {slot, generation}
  kScanDirtyPass,  // it found one
  kSweep,          // the next slot is empty, so no probe needs to go on here
};
inline constexpr std::uint32_t kSlotEvents = 13;

inline constexpr std::uint8_t kCleanPassesToFree = 2;

// What is known of a slot: its shared state, and the daemon's private count of clean passes.
struct SlotLife {
  SlotState state = SlotState::kEmpty;
  std::uint8_t clean_passes = 0;  // in a row; 0 unless retired

  bool operator==(const SlotLife&) const = default;
};

// What the caller does besides storing `next`, as bits.
using Effects = std::uint16_t;
namespace effect {
// Write the fields, then {next state, generation + 1} in one store.
inline constexpr Effects kNewGeneration = 1u << 0;
// Store the state, then give extent, record and prefix back.
inline constexpr Effects kFreeExtent = 1u << 1;
// Store the state, then give the record back; the extent stays with another slot.
inline constexpr Effects kKeepExtent = 1u << 2;
inline constexpr Effects kWakeKeyWaiters = 1u << 3;  // look-ups of this key change their answer
inline constexpr Effects kWakeSpaceWaiters = 1u << 4;
inline constexpr Effects kScan = 1u << 5;         // the next pass over the pages includes this slot
inline constexpr Effects kOtherSlot = 1u << 6;    // this slot stays taken: go on probing
inline constexpr Effects kCompareSpec = 1u << 7;  // already there: duplicate or conflict (R8)
inline constexpr Effects kCountPublished = 1u << 8;
inline constexpr Effects kCountExpired = 1u << 9;
inline constexpr Effects kCountAbandoned = 1u << 10;
inline constexpr Effects kCountRemoved = 1u << 11;
inline constexpr Effects kCountEvicted = 1u << 12;
inline constexpr Effects kCountOfDead = 1u << 13;
}  // namespace effect

struct Step {
  SlotLife next;
  Effects effects = 0;
  std::optional<Code> refuse;  // what the event asked for did not happen

  constexpr bool has(Effects bits) const noexcept { return (effects & bits) == bits; }
  bool operator==(const Step&) const = default;
};

// The producer may still write the extent.
constexpr bool is_being_written(SlotState state) noexcept {
  return state == SlotState::kReserved || state == SlotState::kExpired;
}

std::string_view name(SlotState state) noexcept;
std::string_view name(SlotEvent event) noexcept;

namespace life {

constexpr Step to(SlotState state, Effects effects) noexcept {
  return {.next = {.state = state, .clean_passes = 0}, .effects = effects, .refuse = {}};
}
constexpr Step stay(SlotLife now, Effects effects = 0) noexcept {
  return {.next = now, .effects = effects, .refuse = {}};
}
constexpr Step refuse(SlotLife now, Code code, Effects effects = 0) noexcept {
  return {.next = now, .effects = effects, .refuse = code};
}
// A slot that was used becomes a tombstone: probes that started before its key go on behind it.
constexpr Step release(Effects effects) noexcept {
  return to(SlotState::kTombstone,
            static_cast<Effects>(effects | effect::kFreeExtent | effect::kWakeSpaceWaiters));
}

constexpr Step of_free(SlotLife now, SlotEvent event) noexcept {
  using enum SlotEvent;
  switch (event) {
    case kReserve:
      return to(SlotState::kReserved, effect::kNewGeneration);
    case kInstall:
      return to(SlotState::kPublished,
                effect::kNewGeneration | effect::kWakeKeyWaiters | effect::kCountPublished);
    case kPublish:
    case kPublishLost:
    case kAbort:
    case kRemove:
      return refuse(now, Code::kNotFound);
    case kSweep:
      return to(SlotState::kEmpty, 0);
    case kHandOver:
    case kExpire:
    case kEvict:
    case kOwnerDied:
    case kScanCleanPass:
    case kScanDirtyPass:
      break;
  }
  return stay(now);
}

constexpr Step of_reserved(SlotLife now, SlotEvent event) noexcept {
  using enum SlotEvent;
  switch (event) {
    case kReserve:
    case kInstall:
    case kRemove:
      return refuse(now, Code::kPending);
    case kPublish:
      return to(SlotState::kPublished, effect::kWakeKeyWaiters | effect::kCountPublished);
    case kPublishLost:
      return release(effect::kWakeKeyWaiters | effect::kCompareSpec);
    case kHandOver:
      return to(SlotState::kTombstone, effect::kKeepExtent);
    case kAbort:
      return release(effect::kWakeKeyWaiters | effect::kCountAbandoned);
    case kExpire:
      return to(SlotState::kExpired, effect::kWakeKeyWaiters | effect::kCountExpired);
    case kOwnerDied:
      return release(effect::kWakeKeyWaiters | effect::kCountOfDead);
    case kEvict:
    case kScanCleanPass:
    case kScanDirtyPass:
    case kSweep:
      break;
  }
  return stay(now);
}

// The key is free again, slot and extent are not.
constexpr Step of_expired(SlotLife now, SlotEvent event) noexcept {
  using enum SlotEvent;
  switch (event) {
    case kReserve:
    case kInstall:
      return stay(now, effect::kOtherSlot);
    case kPublish:
    case kPublishLost: {
      Step step = release(0);
      step.refuse = Code::kExpired;
      return step;
    }
    case kHandOver:
      return to(SlotState::kTombstone, effect::kKeepExtent);
    case kAbort:
      return release(effect::kCountAbandoned);
    case kRemove:
      return refuse(now, Code::kNotFound);
    case kOwnerDied:
      return release(effect::kCountOfDead);
    case kExpire:
    case kEvict:
    case kScanCleanPass:
    case kScanDirtyPass:
    case kSweep:
      break;
  }
  return stay(now);
}

constexpr Step of_published(SlotLife now, SlotEvent event) noexcept {
  using enum SlotEvent;
  switch (event) {
    case kReserve:
    case kInstall:
      return stay(now, effect::kCompareSpec);
    case kRemove:
      return to(SlotState::kRetired, effect::kScan | effect::kCountRemoved);
    case kEvict:
      return to(SlotState::kRetired, effect::kScan | effect::kCountEvicted);
    case kAbort:
      return refuse(now, Code::kNotFound);
    case kPublish:  // served once already: the answer is the same
    case kPublishLost:
    case kHandOver:
    case kExpire:
    case kOwnerDied:
    case kScanCleanPass:
    case kScanDirtyPass:
    case kSweep:
      break;
  }
  return stay(now);
}

constexpr Step of_retired(SlotLife now, SlotEvent event) noexcept {
  using enum SlotEvent;
  switch (event) {
    case kReserve:
    case kInstall:
      return stay(now, effect::kOtherSlot);
    case kScanCleanPass:
      if (now.clean_passes + 1 >= kCleanPassesToFree) return release(0);
      return {.next = {.state = SlotState::kRetired,
                       .clean_passes = static_cast<std::uint8_t>(now.clean_passes + 1)},
              .effects = effect::kScan,
              .refuse = {}};
    case kScanDirtyPass:
      return to(SlotState::kRetired, effect::kScan);
    case kAbort:
    case kRemove:
      return refuse(now, Code::kNotFound);
    case kPublish:  // published and removed since; a request served again takes effect once
    case kPublishLost:
    case kHandOver:
    case kExpire:
    case kEvict:
    case kOwnerDied:
    case kSweep:
      break;
  }
  return stay(now);
}

}  // namespace life

// All states x all events. A value that is no state is treated as retired: it is not read, and it
// waits for two clean passes like everything that readers might hold.
constexpr Step advance(SlotLife now, SlotEvent event) noexcept {
  switch (now.state) {
    case SlotState::kEmpty:
    case SlotState::kTombstone:
      return life::of_free(now, event);
    case SlotState::kReserved:
      return life::of_reserved(now, event);
    case SlotState::kExpired:
      return life::of_expired(now, event);
    case SlotState::kPublished:
      return life::of_published(now, event);
    case SlotState::kRetired:
      return life::of_retired(now, event);
  }
  return life::of_retired({.state = SlotState::kRetired, .clean_passes = now.clean_passes}, event);
}

static_assert(advance({}, SlotEvent::kReserve).next.state == SlotState::kReserved);

}  // namespace sluice::store
