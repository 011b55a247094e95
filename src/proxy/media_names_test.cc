#include "proxy/media_names.h"

#include <gtest/gtest.h>

#include "proxy/live_ids.h"
#include "proxy/media_digest.h"

namespace sluice::proxy {
namespace {

TEST(MediaDigest, TenantTypeAndContentAllCount) {
  const std::string name = media_digest("default", "image_url", "\"data:a\"");
  EXPECT_EQ(name.size(), 32u);
  EXPECT_EQ(name.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(name, media_digest("default", "image_url", "\"data:a\""));
  EXPECT_NE(name, media_digest("other", "image_url", "\"data:a\""));
  EXPECT_NE(name, media_digest("default", "video_url", "\"data:a\""));
  EXPECT_NE(name, media_digest("default", "image_url", "\"data:b\""));
  // The zero bytes between keep neighbours apart.
  EXPECT_NE(media_digest("a", "bc", "d"), media_digest("ab", "c", "d"));
}

// The two texts and digests that FIPS 180-4 gives as examples, cut to their first half.
TEST(MediaDigest, IsTheFirstHalfOfSha256) {
  EXPECT_EQ(text_digest(""), "e3b0c44298fc1c149afbf4c8996fb924");
  EXPECT_EQ(text_digest("abc"), "ba7816bf8f01cfea414140de5dae2223");
  const std::string joined = std::string("t") + '\0' + "image_url" + '\0' + "\"data:,x\"";
  EXPECT_EQ(media_digest("t", "image_url", "\"data:,x\""), text_digest(joined));
}

TEST(MediaDigest, RandomNamesDiffer) {
  EXPECT_EQ(random_name().size(), 32u);
  EXPECT_NE(random_name(), random_name());
}

TEST(AliasTable, TheFirstContentBindsTheNameInsideItsTenant) {
  AliasTable aliases(16);
  EXPECT_TRUE(aliases.bind("a", "mine", "1"));
  EXPECT_TRUE(aliases.bind("a", "mine", "1"));
  EXPECT_FALSE(aliases.bind("a", "mine", "2"));
  EXPECT_TRUE(aliases.bind("b", "mine", "2"));
}

TEST(AliasTable, WhatWasNotUsedForLongestIsForgotten) {
  AliasTable aliases(2);
  EXPECT_TRUE(aliases.bind("t", "a", "1"));
  EXPECT_TRUE(aliases.bind("t", "b", "1"));
  EXPECT_TRUE(aliases.bind("t", "a", "1"));
  EXPECT_TRUE(aliases.bind("t", "c", "1"));  // b goes
  EXPECT_FALSE(aliases.bind("t", "a", "2"));
  EXPECT_TRUE(aliases.bind("t", "b", "2"));
}

TEST(LearnedItems, AreKnownForTheirArgumentsAndModelOnly) {
  LearnedItems learned(4);
  learned.learn("u", "", "m", {"id", "{}"});
  ASSERT_TRUE(learned.find("u", "", "m"));
  EXPECT_EQ(learned.find("u", "", "m")->identifier, "id");
  EXPECT_FALSE(learned.find("u", "args", "m"));
  EXPECT_FALSE(learned.find("u", "", "other"));
  learned.learn("u", "", "m", {"id2", "{}"});
  EXPECT_EQ(learned.find("u", "", "m")->identifier, "id2");
}

TEST(LruMap, NeverHoldsMoreThanItsLimitAndForgetsOnRequest) {
  LruMap<int> map(3);
  for (int i = 0; i < 100; ++i) map.put(std::to_string(i), i);
  EXPECT_EQ(map.size(), 3u);
  ASSERT_NE(map.find("99"), nullptr);
  map.erase("99");
  map.erase("99");
  EXPECT_EQ(map.find("99"), nullptr);
  EXPECT_EQ(map.size(), 2u);
  LruMap<int> none(0);
  none.put("a", 1);
  EXPECT_EQ(none.size(), 0u);
}

TEST(LiveIds, TwoRequestsWithOneIdAreToldApart) {
  LiveIds ids;
  const std::string first = ids.enter("a");
  const std::string second = ids.enter("a");
  const std::string third = ids.enter("a-2");
  EXPECT_EQ(first, "a");
  EXPECT_NE(second, first);
  EXPECT_NE(third, second);
  ids.leave(first);
  EXPECT_EQ(ids.enter("a"), "a");
}

TEST(LiveIds, IdsOfCallersAreShortAndPlain) {
  EXPECT_TRUE(is_request_id("req-1_a.b:c"));
  EXPECT_FALSE(is_request_id(""));
  EXPECT_FALSE(is_request_id("a b"));
  EXPECT_FALSE(is_request_id("a\"b"));
  EXPECT_FALSE(is_request_id("\xc3\xa9"));
  EXPECT_TRUE(is_request_id(std::string(128, 'a')));
  EXPECT_FALSE(is_request_id(std::string(129, 'a')));
}

}  // namespace
}  // namespace sluice::proxy
