#include "store/sieve.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <list>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::store {
namespace {

constexpr auto kAnySlot = [](std::uint32_t) { return true; };
constexpr auto kNeverVisited = [](std::uint32_t) { return false; };

class Marks {
 public:
  void visit(std::uint32_t slot) { marks_.insert(slot); }
  auto take() {
    return [this](std::uint32_t slot) { return marks_.erase(slot) != 0; };
  }

 private:
  std::set<std::uint32_t> marks_;
};

TEST(Sieve, WithoutVisitsTheOldestGoesFirst) {
  Sieve sieve(10);
  for (const std::uint32_t slot : {7, 2, 9}) sieve.insert(slot);
  for (const std::uint32_t slot : {7, 2, 9}) {
    const auto victim = sieve.next_victim(kNeverVisited, kAnySlot, 1);
    ASSERT_EQ(victim, slot);
    sieve.erase(*victim);
  }
  EXPECT_EQ(sieve.size(), 0u);
  EXPECT_FALSE(sieve.next_victim(kNeverVisited, kAnySlot, 100));
}

TEST(Sieve, AVisitedSlotSurvivesOneRound) {
  Sieve sieve(10);
  Marks marks;
  for (const std::uint32_t slot : {0, 1, 2}) sieve.insert(slot);
  marks.visit(0);
  EXPECT_EQ(sieve.next_victim(marks.take(), kAnySlot, sieve.full_search()), 1u);
  sieve.erase(1);
  EXPECT_EQ(sieve.next_victim(marks.take(), kAnySlot, sieve.full_search()), 2u);
  sieve.erase(2);
  EXPECT_EQ(sieve.next_victim(marks.take(), kAnySlot, sieve.full_search()), 0u);
}

// What sets SIEVE apart from a queue with reinsertion: a survivor keeps its place behind the hand,
// so that slots younger than it are looked at first.
TEST(Sieve, ASurvivorKeepsItsPlace) {
  Sieve sieve(10);
  Marks marks;
  for (const std::uint32_t slot : {0, 1, 2}) sieve.insert(slot);
  marks.visit(0);
  std::vector<std::uint32_t> victims;
  for (int i = 0; i < 4; ++i) {
    victims.push_back(sieve.next_victim(marks.take(), kAnySlot, sieve.full_search()).value());
    sieve.erase(victims.back());
    if (i == 0) sieve.insert(3);
  }
  EXPECT_EQ(victims, (std::vector<std::uint32_t>{1, 2, 3, 0}));
}

TEST(Sieve, WhenAllWereVisitedOneFullSearchStillFindsOne) {
  Sieve sieve(100);
  Marks marks;
  for (std::uint32_t slot = 0; slot < 100; ++slot) sieve.insert(slot), marks.visit(slot);
  EXPECT_TRUE(sieve.next_victim(marks.take(), kAnySlot, sieve.full_search()));
}

TEST(Sieve, WhatMayNotGoIsNotAskedForItsMarkAndNeverChosen) {
  Sieve sieve(10);
  for (const std::uint32_t slot : {0, 1, 2}) sieve.insert(slot);
  const auto pinned = [](std::uint32_t slot) { return slot == 1; };
  const auto strict = [](std::uint32_t slot) {
    EXPECT_NE(slot, 0u);
    EXPECT_NE(slot, 2u);
    return false;
  };
  EXPECT_EQ(sieve.next_victim(strict, pinned, sieve.full_search()), 1u);
  EXPECT_FALSE(
      sieve.next_victim(kNeverVisited, [](std::uint32_t) { return false; }, sieve.full_search()));
  EXPECT_EQ(sieve.size(), 3u);
}

TEST(Sieve, SoftPinsGoOnlyWhenNothingElseIsLeft) {
  Sieve sieve(10);
  for (const std::uint32_t slot : {0, 1, 2}) sieve.insert(slot);
  const auto unpinned = [](std::uint32_t slot) { return slot == 2; };
  EXPECT_EQ(sieve.next_victim(kNeverVisited, unpinned, sieve.full_search()), 2u);
  sieve.erase(2);
  EXPECT_FALSE(sieve.next_victim(kNeverVisited, unpinned, sieve.full_search()));
  EXPECT_TRUE(sieve.next_victim(kNeverVisited, kAnySlot, sieve.full_search()));
}

TEST(Sieve, TheBudgetBoundsTheWalkAndTheNextCallGoesOn) {
  Sieve sieve(10);
  Marks marks;
  for (std::uint32_t slot = 0; slot < 10; ++slot) sieve.insert(slot);
  for (std::uint32_t slot = 0; slot < 9; ++slot) marks.visit(slot);
  EXPECT_FALSE(sieve.next_victim(marks.take(), kAnySlot, 5));
  EXPECT_FALSE(sieve.next_victim(marks.take(), kAnySlot, 4));
  EXPECT_EQ(sieve.next_victim(marks.take(), kAnySlot, 1), 9u);
}

TEST(SieveDeathTest, InsertingTwiceOrErasingWhatIsNotThereIsCaught) {
  Sieve sieve(4);
  sieve.insert(1);
  EXPECT_DEATH(sieve.insert(1), "bug: CHECK");
  EXPECT_DEATH(sieve.insert(4), "bug: CHECK");
  EXPECT_DEATH(sieve.erase(2), "bug: CHECK");
}

// The same algorithm on a std::list, written from the paper's description.
class NaiveSieve {
 public:
  void insert(std::uint32_t slot) { order_.push_back(slot); }
  void erase(std::uint32_t slot) {
    const auto at = std::find(order_.begin(), order_.end(), slot);
    if (at == hand_) ++hand_;
    order_.erase(at);
  }
  template <class Take, class May>
  std::optional<std::uint32_t> next(Take take, May may, std::uint64_t steps) {
    for (; steps != 0 && !order_.empty(); --steps) {
      if (hand_ == order_.end()) hand_ = order_.begin();
      const std::uint32_t slot = *hand_++;
      if (may(slot) && !take(slot)) return slot;
    }
    return std::nullopt;
  }
  const std::list<std::uint32_t>& order() const { return order_; }

 private:
  std::list<std::uint32_t> order_;
  std::list<std::uint32_t>::iterator hand_ = order_.end();
};

TEST(Sieve, ChoosesLikeTheNaiveOneUnderRandomOperations) {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const std::uint64_t seed = given ? std::stoull(given) : std::random_device{}();
  std::cout << "SLUICE_TEST_SEED=" << seed << "\n";
  std::mt19937_64 random(seed);
  Sieve sieve(50);
  NaiveSieve naive;
  Marks marks, naive_marks;
  for (int i = 0; i < 50000; ++i) {
    const auto slot = static_cast<std::uint32_t>(random() % 50);
    switch (random() % 4) {
      case 0:
        if (!sieve.contains(slot)) sieve.insert(slot), naive.insert(slot);
        break;
      case 1:
        if (random() % 4 == 0 && sieve.contains(slot)) sieve.erase(slot), naive.erase(slot);
        break;
      case 2:
        marks.visit(slot), naive_marks.visit(slot);
        break;
      default: {
        const auto may = [&](std::uint32_t s) { return s % 5 != i % 5u; };
        const std::uint64_t steps = random() % 40;
        const auto victim = sieve.next_victim(marks.take(), may, steps);
        ASSERT_EQ(victim, naive.next(naive_marks.take(), may, steps)) << "operation " << i;
        if (victim && random() % 2 != 0) sieve.erase(*victim), naive.erase(*victim);
      }
    }
    ASSERT_EQ(sieve.size(), naive.order().size());
  }
}

}  // namespace
}  // namespace sluice::store
