#include "http/target.h"

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

TEST(Target, DecodeUndoesEncodeForEveryByte) {
  std::string all;
  for (int c = 1; c < 256; ++c) all += static_cast<char>(c);
  EXPECT_EQ(percent_decode(percent_encode(all)).value(), all);
}

TEST(Target, BrokenEscapesAndNulAreRefused) {
  for (const char* text : {"%", "%4", "%zz", "a%", "%00", "%4g"})
    EXPECT_FALSE(percent_decode(text).has_value()) << text;
}

TEST(Target, AnEncodedSlashStaysInsideItsSegment) {
  const auto target = parse_target("/v1/objects/a%2Fb?prefix=x%20y&limit=3");
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->path, "/v1/objects/a%2Fb");
  EXPECT_EQ(target->query.at("prefix"), "x y");
  EXPECT_EQ(target->query.at("limit"), "3");
}

TEST(Target, AmbiguousOrForeignTargetsAreRefused) {
  EXPECT_FALSE(parse_target("").has_value());
  EXPECT_FALSE(parse_target("http://elsewhere/").has_value());
  EXPECT_FALSE(parse_target("/a?x=1&x=2").has_value());
  EXPECT_FALSE(parse_target("/a?x=%").has_value());
  EXPECT_FALSE(parse_target("/" + std::string(9000, 'a')).has_value());
  EXPECT_TRUE(parse_target("/a?&&").has_value());
}

}  // namespace
}  // namespace sluice::http
