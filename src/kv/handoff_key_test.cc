#include "kv/handoff_key.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::kv {
namespace {

const std::string kId = "0123456789abcdef0123456789abcdef";
const std::string kPrefix =
    "sluice1@tenant:default@kind:kv_handoff@model:kv@revision:1@encoder:none@dtype:uint8@layout:"
    "replicated@id:" +
    kId + ".";

TEST(HandoffKeys, AreWrittenAsTheProtocolSays) {
  const auto keys = HandoffKeys::make("default", kId).value();
  EXPECT_EQ(keys.prefix(), kPrefix);
  EXPECT_EQ(keys.part({.generation = 2, .rank = 1, .sequence = 30}).text(), kPrefix + "2.1.30");
  EXPECT_EQ(keys.commit(2, 1).text(), kPrefix + "2.1.end");
  EXPECT_EQ(keys.prefix_of(2, 1), kPrefix + "2.1.");
  EXPECT_EQ(keys.commit(2, 1).kind(), ObjectKind::kKvHandoff);
}

TEST(HandoffKeys, NoPrefixOfARankCoversAnother) {
  const auto keys = HandoffKeys::make("default", kId).value();
  EXPECT_FALSE(keys.commit(1, 10).text().starts_with(keys.prefix_of(1, 1)));
  EXPECT_FALSE(keys.commit(11, 1).text().starts_with(keys.prefix_of(1, 1)));
}

TEST(HandoffKeys, TenantsShareNoKey) {
  const auto one = HandoffKeys::make("a", kId).value();
  const auto other = HandoffKeys::make("a@b", kId).value();
  EXPECT_NE(one.prefix(), other.prefix());
  EXPECT_FALSE(other.commit(0, 0).text().starts_with(one.prefix()));
}

TEST(HandoffKeys, RefusesWhatIsNotAHandoffId) {
  for (const std::string& id :
       {std::string(), kId.substr(1), kId + "0", std::string(32, 'A'), std::string(32, 'g'),
        kId.substr(0, 31) + ".", std::string(32, '\0')}) {
    EXPECT_FALSE(is_handoff_id(id));
    const auto keys = HandoffKeys::make("default", id);
    ASSERT_FALSE(keys.has_value());
    EXPECT_EQ(keys.error().code, Code::kInvalidArgument);
  }
}

TEST(HandoffKeys, RefusesATenantThatNoKeyCanName) {
  EXPECT_FALSE(HandoffKeys::make("", kId).has_value());
  EXPECT_FALSE(HandoffKeys::make(std::string(2000, 't'), kId).has_value());
}

}  // namespace
}  // namespace sluice::kv
