#include "sched/health.h"

#include <gtest/gtest.h>

namespace sluice::sched {
namespace {

constexpr HealthThresholds kThresholds{.failures_to_evict = 3, .successes_to_readmit = 2};
constexpr HealthEvent kAll[] = {HealthEvent::kProbeGood, HealthEvent::kProbeBad,
                                HealthEvent::kRequestGood, HealthEvent::kRequestRefused};

TEST(Health, ThreeBadSignsInARowEvict) {
  for (const HealthEvent bad : {HealthEvent::kProbeBad, HealthEvent::kRequestRefused}) {
    Health health;
    health = step(health, bad, kThresholds);
    health = step(health, bad, kThresholds);
    EXPECT_TRUE(health.usable);
    health = step(health, bad, kThresholds);
    EXPECT_FALSE(health.usable);
  }
}

TEST(Health, AGoodSignBetweenStartsTheCountAgain) {
  for (const HealthEvent good : {HealthEvent::kProbeGood, HealthEvent::kRequestGood}) {
    Health health;
    for (int round = 0; round < 10; ++round) {
      health = step(health, HealthEvent::kProbeBad, kThresholds);
      health = step(health, HealthEvent::kProbeBad, kThresholds);
      health = step(health, good, kThresholds);
    }
    EXPECT_TRUE(health.usable);
  }
}

TEST(Health, OnlyProbesInARowReadmit) {
  Health health{.usable = false};
  for (int i = 0; i < 10; ++i) health = step(health, HealthEvent::kRequestGood, kThresholds);
  EXPECT_FALSE(health.usable);
  health = step(health, HealthEvent::kProbeGood, kThresholds);
  health = step(health, HealthEvent::kProbeBad, kThresholds);
  health = step(health, HealthEvent::kProbeGood, kThresholds);
  EXPECT_FALSE(health.usable);
  health = step(health, HealthEvent::kProbeGood, kThresholds);
  EXPECT_EQ(health, (Health{.confirmed = true}));
}

// Every state that can be reached keeps the counts below their thresholds, and a change of `usable`
// happens only at one.
TEST(Health, EveryStateWithEveryEventKeepsItsCountsBelowTheThresholds) {
  for (const bool usable : {true, false}) {
    for (std::uint32_t bad = 0; bad < kThresholds.failures_to_evict; ++bad) {
      for (std::uint32_t good = 0; good < kThresholds.successes_to_readmit; ++good) {
        for (const HealthEvent event : kAll) {
          const Health before{.usable = usable, .bad_in_a_row = bad, .good_in_a_row = good};
          const Health after = step(before, event, kThresholds);
          const bool left = before.usable && !after.usable;
          const bool came = !before.usable && after.usable;
          EXPECT_EQ(left,
                    usable && bad + 1 == kThresholds.failures_to_evict &&
                        (event == HealthEvent::kProbeBad || event == HealthEvent::kRequestRefused));
          EXPECT_EQ(came, !usable && good + 1 == kThresholds.successes_to_readmit &&
                              event == HealthEvent::kProbeGood);
          const bool good_sign =
              event == HealthEvent::kProbeGood || event == HealthEvent::kRequestGood;
          EXPECT_EQ(after.confirmed, after.usable && good_sign);
          if (after.usable) {
            EXPECT_LT(after.bad_in_a_row, kThresholds.failures_to_evict);
          }
          EXPECT_LT(after.good_in_a_row, kThresholds.successes_to_readmit);
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::sched
