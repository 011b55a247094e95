#include "sched/retry.h"

#include <gtest/gtest.h>

namespace sluice::sched {
namespace {

constexpr Failure kAll[] = {Failure::kRefused, Failure::kBroken,   Failure::kEngine, Failure::kBusy,
                            Failure::kRequest, Failure::kDeadline, Failure::kGone};

TEST(Retry, NothingIsTriedAgainOnceTheClientHasSeenContent) {
  for (const Failure failure : kAll) {
    for (const bool references : {false, true}) {
      EXPECT_EQ(after_failure({.failure = failure,
                               .tries = 1,
                               .content_sent = true,
                               .with_references = references}),
                Next::kGiveUp)
          << name(failure);
    }
  }
}

TEST(Retry, EveryFailureWithEveryStateHasTheAnswerOfTheRules) {
  for (const Failure failure : kAll) {
    for (std::uint32_t tries = 1; tries <= 4; ++tries) {
      for (const bool references : {false, true}) {
        for (const bool media_tried : {false, true}) {
          const Next next = after_failure({.failure = failure,
                                           .tries = tries,
                                           .tries_max = 3,
                                           .with_references = references,
                                           .media_tried = media_tried});
          const bool over = failure == Failure::kDeadline || failure == Failure::kGone;
          const bool answered = failure == Failure::kEngine || failure == Failure::kRequest;
          if (over) {
            EXPECT_EQ(next, Next::kGiveUp);
          } else if (answered && references && !media_tried) {
            EXPECT_EQ(next, Next::kWithMedia) << name(failure) << tries;
          } else if (failure == Failure::kRequest || tries >= 3) {
            EXPECT_EQ(next, Next::kGiveUp) << name(failure) << tries;
          } else {
            EXPECT_EQ(next, Next::kAnotherInstance) << name(failure) << tries;
          }
        }
      }
    }
  }
}

TEST(RetryBudget, RetriesStayBelowTheirShareOfTheRequests) {
  RetryBudget budget(0.25, 2);
  EXPECT_TRUE(budget.take());
  EXPECT_TRUE(budget.take());
  EXPECT_FALSE(budget.take());
  for (int i = 0; i < 3; ++i) budget.on_request();
  EXPECT_FALSE(budget.take());
  budget.on_request();
  EXPECT_TRUE(budget.take());
  for (int i = 0; i < 100; ++i) budget.on_request();
  EXPECT_DOUBLE_EQ(budget.tokens(), 2);
}

}  // namespace
}  // namespace sluice::sched
