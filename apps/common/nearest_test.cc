#include "common/nearest.h"

#include <vector>

#include <gtest/gtest.h>

namespace sluice::app {
namespace {

TEST(Nearest, AOneLetterSlipFindsItsSetting) {
  const std::vector<std::string> known = {"size", "segment-size", "objects-max", "admin-port"};
  EXPECT_EQ(nearest("segmnet-size", known), "segment-size");
  EXPECT_EQ(nearest("object-max", known), "objects-max");
  EXPECT_EQ(nearest("SIZE", known), "size");
}

TEST(Nearest, NothingIsSuggestedForAnUnrelatedWord) {
  const std::vector<std::string> known = {"size", "segment-size"};
  EXPECT_EQ(nearest("watermelon", known), std::nullopt);
  EXPECT_EQ(nearest("x", known), std::nullopt);
  EXPECT_EQ(nearest("anything", {}), std::nullopt);
}

TEST(Nearest, DistanceCountsASwapOnceAndIsSymmetric) {
  EXPECT_EQ(edit_distance("abcd", "abdc"), 1u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), edit_distance("sitting", "kitten"));
  EXPECT_EQ(edit_distance("same", "same"), 0u);
}

}  // namespace
}  // namespace sluice::app
