#include "metrics/families.h"

#include <gtest/gtest.h>

namespace sluice::metrics {
namespace {

TEST(Families, AFamilyWithManySeriesIsDeclaredOnce) {
  Families families;
  families.counter("sluice_a_total", "Help.", 1, {{"kind", "x"}});
  families.gauge("sluice_b", "Other.", 0.5);
  families.counter("sluice_a_total", "Help.", 2, {{"kind", "y"}});
  const std::string text = families.text();
  const std::size_t first = text.find("# TYPE sluice_a_total counter");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("# TYPE sluice_a_total", first + 1), std::string::npos);
  EXPECT_NE(text.find("sluice_a_total{kind=\"x\"} 1"), std::string::npos);
  EXPECT_NE(text.find("sluice_a_total{kind=\"y\"} 2"), std::string::npos);
  EXPECT_NE(text.find("# TYPE sluice_b gauge"), std::string::npos);
}

TEST(Families, BucketsOfAHistogramAccumulate) {
  Families families;
  families.histogram("sluice_d_seconds", "Help.",
                     {.bounds = {0.5, 1}, .counts = {2, 0, 3}, .sum = 9.5}, {{"role", "x"}});
  const std::string text = families.text();
  EXPECT_NE(text.find("# TYPE sluice_d_seconds histogram"), std::string::npos) << text;
  EXPECT_NE(text.find("sluice_d_seconds_bucket{role=\"x\",le=\"0.5\"} 2"), std::string::npos)
      << text;
  EXPECT_NE(text.find("sluice_d_seconds_bucket{role=\"x\",le=\"1\"} 2"), std::string::npos) << text;
  EXPECT_NE(text.find("sluice_d_seconds_bucket{role=\"x\",le=\"+Inf\"} 5"), std::string::npos)
      << text;
  EXPECT_NE(text.find("sluice_d_seconds_sum{role=\"x\"} 9.5"), std::string::npos) << text;
  EXPECT_NE(text.find("sluice_d_seconds_count{role=\"x\"} 5"), std::string::npos) << text;
}

TEST(Families, ALabelCannotForgeALine) {
  Families families;
  families.gauge("sluice_b", "Help.", 1, {{"client", "a\"\nsluice_c 9\\"}});
  const std::string text = families.text();
  EXPECT_EQ(text.find("\nsluice_c"), std::string::npos) << text;
  EXPECT_NE(text.find("a\\\"\\nsluice_c 9\\\\"), std::string::npos) << text;
}

}  // namespace
}  // namespace sluice::metrics
