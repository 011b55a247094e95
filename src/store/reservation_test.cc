#include "store/reservation.h"

#include <array>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace sluice::store {
namespace {

using enum SlotEvent;
using enum SlotState;

constexpr std::array kStates{kEmpty, kTombstone, kReserved, kExpired, kPublished, kRetired};
constexpr std::array kEvents{kReserve,       kInstall,       kPublish, kPublishLost, kHandOver,
                             kAbort,         kExpire,        kRemove,  kEvict,       kOwnerDied,
                             kScanCleanPass, kScanDirtyPass, kSweep};
static_assert(kStates.size() == kSlotStates && kEvents.size() == kSlotEvents);

// A step as text: next state, effects in the order of their bits, refusal.
std::string text(const Step& step) {
  constexpr std::array<std::pair<Effects, const char*>, 14> kNames{{
      {effect::kNewGeneration, "generation"},
      {effect::kFreeExtent, "free"},
      {effect::kKeepExtent, "keep"},
      {effect::kWakeKeyWaiters, "wake-key"},
      {effect::kWakeSpaceWaiters, "wake-space"},
      {effect::kScan, "scan"},
      {effect::kOtherSlot, "other-slot"},
      {effect::kCompareSpec, "compare"},
      {effect::kCountPublished, "+published"},
      {effect::kCountExpired, "+expired"},
      {effect::kCountAbandoned, "+abandoned"},
      {effect::kCountRemoved, "+removed"},
      {effect::kCountEvicted, "+evicted"},
      {effect::kCountOfDead, "+dead"},
  }};
  std::string out(name(step.next.state));
  if (step.next.clean_passes != 0) out += "/" + std::to_string(step.next.clean_passes);
  for (const auto& [bit, label] : kNames) {
    if (step.has(bit)) out += std::string(" ") + label;
  }
  if (step.refuse) out += " refuse:" + std::string(name(*step.refuse));
  return out;
}

// The whole machine, one row per event; "-" is a step that changes nothing.
struct Row {
  SlotEvent event;
  std::array<const char*, 6> steps;  // in the order of kStates
};
constexpr const char* kFreed = "tombstone free wake-space";
constexpr std::array<Row, kSlotEvents> kTable{{
    {kReserve,
     {"reserved generation", "reserved generation", "reserved refuse:pending", "expired other-slot",
      "published compare", "retired other-slot"}},
    {kInstall,
     {"published generation wake-key +published", "published generation wake-key +published",
      "reserved refuse:pending", "expired other-slot", "published compare", "retired other-slot"}},
    {kPublish,
     {"empty refuse:not_found", "tombstone refuse:not_found", "published wake-key +published",
      "tombstone free wake-space refuse:expired", "-", "-"}},
    {kPublishLost,
     {"empty refuse:not_found", "tombstone refuse:not_found",
      "tombstone free wake-key wake-space compare", "tombstone free wake-space refuse:expired", "-",
      "-"}},
    {kHandOver, {"-", "-", "tombstone keep", "tombstone keep", "-", "-"}},
    {kAbort,
     {"empty refuse:not_found", "tombstone refuse:not_found",
      "tombstone free wake-key wake-space +abandoned", "tombstone free wake-space +abandoned",
      "published refuse:not_found", "retired refuse:not_found"}},
    {kExpire, {"-", "-", "expired wake-key +expired", "-", "-", "-"}},
    {kRemove,
     {"empty refuse:not_found", "tombstone refuse:not_found", "reserved refuse:pending",
      "expired refuse:not_found", "retired scan +removed", "retired refuse:not_found"}},
    {kEvict, {"-", "-", "-", "-", "retired scan +evicted", "-"}},
    {kOwnerDied,
     {"-", "-", "tombstone free wake-key wake-space +dead", "tombstone free wake-space +dead", "-",
      "-"}},
    {kScanCleanPass, {"-", "-", "-", "-", "-", "retired/1 scan"}},
    {kScanDirtyPass, {"-", "-", "-", "-", "-", "retired scan"}},
    {kSweep, {"-", "empty", "-", "-", "-", "-"}},
}};

TEST(Reservation, EveryStateAnswersEveryEventAsTheTableSays) {
  for (std::size_t e = 0; e < kTable.size(); ++e) {
    ASSERT_EQ(kTable[e].event, kEvents[e]);
    for (std::size_t s = 0; s < kStates.size(); ++s) {
      const std::string expected = kTable[e].steps[s] == std::string("-")
                                       ? std::string(name(kStates[s]))
                                       : kTable[e].steps[s];
      EXPECT_EQ(text(advance({.state = kStates[s]}, kEvents[e])), expected)
          << name(kStates[s]) << " x " << name(kEvents[e]);
    }
  }
}

TEST(Reservation, OnlyTwoCleanPassesInARowFreeARetiredSlot) {
  const Step once = advance({.state = kRetired}, kScanCleanPass);
  EXPECT_EQ(text(advance(once.next, kScanCleanPass)), kFreed);
  const Step dirty = advance(once.next, kScanDirtyPass);
  EXPECT_EQ(text(dirty), "retired scan");
  EXPECT_EQ(text(advance(dirty.next, kScanCleanPass)), "retired/1 scan");
}

TEST(Reservation, RetiringStartsTheCountAnew) {
  for (const SlotEvent leave : {kRemove, kEvict}) {
    const Step step = advance({.state = kPublished, .clean_passes = 1}, leave);
    EXPECT_EQ(step.next, (SlotLife{.state = kRetired, .clean_passes = 0}));
  }
}

TEST(Reservation, NoTimerAndNoEvictionEverFreesAnExtent) {
  for (const SlotState state : kStates) {
    for (const SlotEvent event : {kExpire, kRemove, kEvict, kSweep, kScanDirtyPass, kReserve}) {
      EXPECT_FALSE(advance({.state = state}, event).has(effect::kFreeExtent))
          << name(state) << " x " << name(event);
    }
  }
}

TEST(Reservation, AnExtentIsFreedExactlyWhenItsSlotBecomesFreeAndItIsNotHandedOver) {
  for (const SlotState state : kStates) {
    for (const std::uint8_t passes : {std::uint8_t{0}, std::uint8_t{1}}) {
      for (const SlotEvent event : kEvents) {
        const Step step = advance({.state = state, .clean_passes = passes}, event);
        const bool left = !is_free(state) && is_free(step.next.state);
        EXPECT_EQ(step.has(effect::kFreeExtent) || step.has(effect::kKeepExtent), left)
            << name(state) << " x " << name(event);
        EXPECT_EQ(step.has(effect::kKeepExtent), left && event == kHandOver);
        EXPECT_EQ(step.has(effect::kNewGeneration), is_free(state) && !is_free(step.next.state));
      }
    }
  }
}

TEST(Reservation, AStateThatIsNoneWaitsLikeARetiredOne) {
  const SlotLife garbage{.state = static_cast<SlotState>(200)};
  EXPECT_EQ(name(garbage.state), "unknown");
  for (const SlotEvent event : kEvents) {
    EXPECT_EQ(advance(garbage, event), advance({.state = kRetired}, event)) << name(event);
  }
}

}  // namespace
}  // namespace sluice::store
