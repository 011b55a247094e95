#include "metrics/quantiles.h"

#include <limits>

#include <gtest/gtest.h>

namespace sluice::metrics {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Quantiles, LieStraightBetweenTheBoundsOfTheirBucket) {
  const Buckets buckets{.bounds = {1, 2, 4, kInf}, .counts = {10, 20, 40, 40}};
  EXPECT_DOUBLE_EQ(*quantile(buckets, 0.25), 1);
  EXPECT_DOUBLE_EQ(*quantile(buckets, 0.125), 0.5);
  EXPECT_DOUBLE_EQ(*quantile(buckets, 0.75), 3);
  EXPECT_DOUBLE_EQ(*quantile(buckets, 1), 4);
}

TEST(Quantiles, AboveTheLastBoundTheBoundIsAllThatIsKnown) {
  const Buckets buckets{.bounds = {1, kInf}, .counts = {1, 10}};
  EXPECT_DOUBLE_EQ(*quantile(buckets, 0.99), 1);
  EXPECT_FALSE(quantile({.bounds = {kInf}, .counts = {3}}, 0.5).has_value());
}

TEST(Quantiles, OfNothingThereIsNone) {
  EXPECT_FALSE(quantile({}, 0.5).has_value());
  EXPECT_FALSE(quantile({.bounds = {1, kInf}, .counts = {0, 0}}, 0.5).has_value());
}

TEST(Quantiles, ADifferenceIsWhatWasAdded) {
  const Buckets earlier{.bounds = {1, kInf}, .counts = {3, 5}};
  const Buckets later{.bounds = {1, kInf}, .counts = {4, 9}};
  EXPECT_EQ(difference(later, earlier).counts, (std::vector<double>{1, 4}));
}

TEST(Quantiles, HistogramsWithTheSameBoundsAreAdded) {
  Buckets sum;
  add(sum, {.bounds = {1, kInf}, .counts = {3, 5}});
  add(sum, {.bounds = {1, kInf}, .counts = {1, 1}});
  add(sum, {.bounds = {2, kInf}, .counts = {9, 9}});
  add(sum, {});
  EXPECT_EQ(sum.counts, (std::vector<double>{4, 6}));
}

TEST(Quantiles, AProcessThatCountsFromZeroAgainIsTakenAsItIs) {
  const Buckets before{.bounds = {1, kInf}, .counts = {3, 5}};
  const Buckets restarted{.bounds = {1, kInf}, .counts = {1, 2}};
  const Buckets others{.bounds = {2, kInf}, .counts = {9, 9}};
  EXPECT_EQ(difference(restarted, before).counts, restarted.counts);
  EXPECT_EQ(difference(others, before).counts, others.counts);
}

}  // namespace
}  // namespace sluice::metrics
