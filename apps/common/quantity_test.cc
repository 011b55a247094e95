#include "common/quantity.h"

#include <gtest/gtest.h>

namespace sluice::app {
namespace {

using namespace std::chrono_literals;

TEST(Size, UnitsOfTenTwentyFourAndOfAThousandAreToldApart) {
  EXPECT_EQ(parse_size("0").value(), 0u);
  EXPECT_EQ(parse_size("4096").value(), 4096u);
  EXPECT_EQ(parse_size("512M").value(), 512u << 20);
  EXPECT_EQ(parse_size("4G").value(), std::uint64_t{4} << 30);
  EXPECT_EQ(parse_size("1GiB").value(), std::uint64_t{1} << 30);
  EXPECT_EQ(parse_size("1 gib").value(), std::uint64_t{1} << 30);
  EXPECT_EQ(parse_size("1GB").value(), 1'000'000'000u);
  EXPECT_EQ(parse_size("1.5K").value(), 1536u);
}

TEST(Size, GarbageAndOverflowAreRefusedWithAnExample) {
  for (const char* text : {"", "M", "-1", "12Q", "1..5M", "0x10", "1M2", "99999999T",
                           "18446744073709551616", "1e3", "nan"}) {
    const auto size = parse_size(text);
    ASSERT_FALSE(size.has_value()) << text;
    EXPECT_EQ(size.error().code, Code::kInvalidArgument);
    EXPECT_NE(size.error().message.find("512M"), std::string::npos);
  }
}

TEST(Duration, EveryUnitIsReadAndANakedNumberIsNot) {
  EXPECT_EQ(parse_duration("500ms").value(), 500ms);
  EXPECT_EQ(parse_duration("30s").value(), 30s);
  EXPECT_EQ(parse_duration("0").value(), 0ns);
  EXPECT_EQ(parse_duration("1.5s").value(), 1500ms);
  EXPECT_EQ(parse_duration("2h").value(), 2h);
  EXPECT_EQ(parse_duration("3us").value(), 3us);
  EXPECT_FALSE(parse_duration("30").has_value());
  EXPECT_FALSE(parse_duration("s").has_value());
  EXPECT_FALSE(parse_duration("-1s").has_value());
  EXPECT_FALSE(parse_duration("99999999999d").has_value());
}

TEST(Count, IsWholeAndBounded) {
  EXPECT_EQ(parse_count("65535", 65535).value(), 65535u);
  EXPECT_FALSE(parse_count("65536", 65535).has_value());
  EXPECT_FALSE(parse_count("1.0", 10).has_value());
  EXPECT_FALSE(parse_count("", 10).has_value());
}

TEST(Share, AcceptsAFractionOrAPercentage) {
  EXPECT_DOUBLE_EQ(parse_share("0.95").value(), 0.95);
  EXPECT_DOUBLE_EQ(parse_share("95%").value(), 0.95);
  EXPECT_FALSE(parse_share("1.5").has_value());
  EXPECT_FALSE(parse_share("nan").has_value());
  EXPECT_FALSE(parse_share("high").has_value());
}

TEST(Bool, OnlyWordsThatMeanItCount) {
  EXPECT_TRUE(parse_bool("on").value());
  EXPECT_FALSE(parse_bool("False").value());
  EXPECT_FALSE(parse_bool("maybe").has_value());
}

TEST(Format, SizesAndTimesReadAsPeopleSayThem) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1536), "1.50 KiB");
  EXPECT_EQ(format_size(std::uint64_t{20} << 30), "20.0 GiB");
  EXPECT_EQ(format_duration(1500us), "1.5 ms");
  EXPECT_EQ(format_duration(90s), "90.0 s");
  EXPECT_EQ(format_rate(4.2e9), "4.20 GB/s");
}

}  // namespace
}  // namespace sluice::app
