#include "base/checked.h"

#include <limits>

#include <gtest/gtest.h>

namespace sluice {
namespace {

constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();

TEST(Checked, FitsComparesBeforeItAdds) {
  EXPECT_TRUE(fits(0, 0, 0));
  EXPECT_TRUE(fits(4, 4, 8));
  EXPECT_FALSE(fits(5, 4, 8));
  EXPECT_FALSE(fits(9, 0, 8));
  EXPECT_FALSE(fits(1, kMax, 8));
  EXPECT_FALSE(fits(kMax, kMax, 8));
}

TEST(Checked, OverflowIsNothing) {
  EXPECT_EQ(checked_mul<std::uint64_t>(1u << 20, 1u << 20), std::uint64_t{1} << 40);
  EXPECT_FALSE(checked_mul<std::uint64_t>(kMax, 2));
  EXPECT_FALSE(checked_add<std::uint64_t>(kMax, 1));
  EXPECT_FALSE(checked_align(kMax - 3, 4096));
  EXPECT_EQ(checked_align(4097, 4096), 8192u);
}

}  // namespace
}  // namespace sluice
