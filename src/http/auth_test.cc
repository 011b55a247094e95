#include "http/auth.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

TEST(BearerToken, OnlyTheWholeTokenMatches) {
  EXPECT_TRUE(bearer_matches("Bearer s3cret-token", "s3cret-token"));
  EXPECT_TRUE(bearer_matches("bearer s3cret-token", "s3cret-token"));
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer s3cret-toke", "Bearer s3cret-tokem",
                            "Bearer s3cret-token ", "Bearer S3cret-token", "Basic s3cret-token",
                            "s3cret-token", "Bearer  s3cret-token"}) {
    EXPECT_FALSE(bearer_matches(wrong, "s3cret-token")) << wrong;
  }
}

TEST(BearerToken, AnUnsetTokenMatchesNothing) {
  EXPECT_FALSE(bearer_matches("Bearer ", ""));
  EXPECT_FALSE(bearer_matches("", ""));
}

TEST(BearerToken, EveryOneBitDifferenceIsSeen) {
  const std::string secret = "0123456789abcdef";
  for (std::size_t i = 0; i < secret.size() * 8; ++i) {
    std::string other = secret;
    other[i / 8] = static_cast<char>(other[i / 8] ^ (1 << (i % 8)));
    EXPECT_FALSE(equal_in_constant_time(other, secret)) << "bit " << i;
  }
  EXPECT_TRUE(equal_in_constant_time(secret, secret));
}

}  // namespace
}  // namespace sluice::http
