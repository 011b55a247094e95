#include "sched/choice.h"

#include <gtest/gtest.h>

namespace sluice::sched {
namespace {

TEST(Choice, TheShortestExpectedWaitWins) {
  const Candidate slow_and_idle{.id = 1, .running = 0, .running_max = 8, .service_ns = 1000};
  const Candidate quick_and_busy{.id = 2, .running = 3, .running_max = 8, .service_ns = 100};
  const Candidate all[] = {slow_and_idle, quick_and_busy};
  EXPECT_EQ(choose(all, {}), 1u);
}

TEST(Choice, AnInstanceThatIsFullOrUnusableIsNeverChosen) {
  const Candidate full{.id = 1, .running = 2, .running_max = 2};
  const Candidate evicted{.id = 2, .usable = false, .running_max = 2};
  const Candidate all[] = {full, evicted};
  EXPECT_EQ(choose(all, {}), std::nullopt);
  EXPECT_EQ(choose({}, {}), std::nullopt);
}

TEST(Choice, WhatLiesThereOutweighsAShorterWait) {
  const Candidate free{.id = 1, .running = 0, .running_max = 8, .service_ns = 100};
  const Candidate holder{.id = 2, .running = 2, .running_max = 8, .service_ns = 100};
  const Candidate all[] = {free, holder};
  const auto saves = [](std::uint64_t ns) {
    return Wish{.saves_ns = [ns](InstanceId id) { return id == 2 ? ns : 0; }};
  };
  EXPECT_EQ(choose(all, saves(50)), 0u);
  EXPECT_EQ(choose(all, saves(250)), 1u);
}

TEST(Choice, WhereItFailedIsTheLastResort) {
  const Candidate failed{.id = 1, .running = 0, .running_max = 8, .service_ns = 1};
  const Candidate other{.id = 2, .running = 7, .running_max = 8, .service_ns = 1000};
  const Candidate all[] = {failed, other};
  EXPECT_EQ(choose(all, {.avoid = {1}}), 1u);
  EXPECT_EQ(choose(std::span(all, 1), {.avoid = {1}}), 0u);
}

TEST(Choice, IdleInstancesTakeTurns) {
  const Candidate all[] = {{.id = 1, .running_max = 1, .chosen_at = 9},
                           {.id = 2, .running_max = 1, .chosen_at = 4},
                           {.id = 3, .running_max = 1, .chosen_at = 7}};
  EXPECT_EQ(choose(all, {}), 1u);
}

TEST(Choice, AWaitBeyondAllNumbersIsStillAWait) {
  const Candidate all[] = {{.id = 1, .running = 4, .running_max = 8, .service_ns = UINT64_MAX},
                           {.id = 2, .running = 3, .running_max = 8, .service_ns = UINT64_MAX / 2}};
  EXPECT_TRUE(choose(all, {}).has_value());
}

}  // namespace
}  // namespace sluice::sched
