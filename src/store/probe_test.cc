// A look-up touches at most kProbeMax slots, each once, and takes a slot that changes for another
// key.
#include "store/probe.h"

#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::store {
namespace {

constexpr std::array<std::uint64_t, 1> kSegments{16 * kPageBytes};
constexpr ControlShape kShape{.objects_max = 1000, .segment_bytes = kSegments};

class Probe : public testing::Test {
 protected:
  Probe() : bytes_(ControlView::bytes_for(kShape)) {
    memory_ = static_cast<std::byte*>(::operator new[](bytes_, std::align_val_t{kPageBytes}));
    std::memset(memory_, 0, bytes_);
    control_ = ControlView::create({memory_, bytes_}, kShape, 1);
  }
  ~Probe() override { ::operator delete[](memory_, std::align_val_t{kPageBytes}); }

  void set(std::uint32_t slot, SlotState state, const Hash128& hash, std::uint32_t generation = 1) {
    control_.slot(slot).hash_low = hash.low;
    control_.slot(slot).hash_high = hash.high;
    control_.slot(slot).word = pack(SlotWord{state, generation});
  }

  std::size_t bytes_;
  std::byte* memory_;
  ControlView control_;
  Hash128 hash_ = hash_of("a@id:b");
  std::uint32_t home_ = 0;

  void SetUp() override { home_ = control_.home(hash_); }
};

TEST_F(Probe, EveryHomeLeavesRoomForAWholeProbe) {
  for (const std::uint64_t low :
       {std::uint64_t{0}, std::uint64_t{1} << 63, UINT64_MAX - 1, UINT64_MAX}) {
    EXPECT_LE(control_.home({.low = low}) + kProbeMax, control_.index_slots());
  }
}

TEST_F(Probe, PresentBeatsPendingAndExpiredIsNeither) {
  EXPECT_EQ(look_up(control_, hash_), Presence::kAbsent);
  set(home_, SlotState::kExpired, hash_);
  EXPECT_EQ(look_up(control_, hash_), Presence::kAbsent);
  set(home_ + 1, SlotState::kReserved, hash_);
  EXPECT_EQ(look_up(control_, hash_), Presence::kPending);
  set(home_ + 2, SlotState::kRetired, hash_);
  EXPECT_EQ(look_up(control_, hash_), Presence::kPending);
  set(home_ + 3, SlotState::kPublished, hash_);
  EXPECT_EQ(look_up(control_, hash_), Presence::kPresent);
}

TEST_F(Probe, GoesOnBehindTombstonesAndOtherKeysAndEndsAtAnEmptySlot) {
  set(home_, SlotState::kTombstone, hash_);
  set(home_ + 1, SlotState::kPublished, hash_of("another@id:key"));
  set(home_ + 2, SlotState::kPublished, hash_);
  EXPECT_EQ(look_up(control_, hash_), Presence::kPresent);
  set(home_ + 1, SlotState::kEmpty, {});
  EXPECT_EQ(look_up(control_, hash_), Presence::kAbsent) << "nothing stands behind an empty slot";
}

TEST_F(Probe, LooksAtNoMoreSlotsThanItsLimit) {
  for (std::uint32_t i = 0; i < kProbeMax; ++i) set(home_ + i, SlotState::kTombstone, {});
  set(home_ + kProbeMax - 1, SlotState::kPublished, hash_);
  EXPECT_EQ(look_up(control_, hash_), Presence::kPresent) << "the last one counts";
  set(home_ + kProbeMax - 1, SlotState::kTombstone, {});
  set(home_ + kProbeMax, SlotState::kPublished, hash_);
  EXPECT_EQ(look_up(control_, hash_), Presence::kAbsent) << "the one after it does not";
}

TEST_F(Probe, ASlotThatChangedMeanwhileIsPassedByAndNeverLookedAtAgain) {
  set(home_, SlotState::kPublished, hash_);
  set(home_ + 1, SlotState::kPublished, hash_);
  std::vector<std::uint32_t> visited;
  const bool found = probe(control_, hash_, [&](std::uint32_t slot, SlotWord) {
    visited.push_back(slot);
    // Both change while the first is looked at.
    set(home_, SlotState::kTombstone, {}, 1);
    set(home_ + 1, SlotState::kReserved, hash_of("new@id:one"), 2);
    return false;
  });
  EXPECT_FALSE(found);
  EXPECT_EQ(visited, std::vector{home_});
}

}  // namespace
}  // namespace sluice::store
