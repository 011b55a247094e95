#include "proxy/feature_directory.h"

#include <functional>

#include <gtest/gtest.h>

#include "kv/handoff_key.h"
#include "store/test_arena.h"

namespace sluice::proxy {
namespace {

constexpr std::string_view kPrefix =
    "sluice1@tenant:default@kind:encoder_output@model:org%2Fm@revision:1@encoder:e@dtype:"
    "uint8@layout:replicated";

bool eventually(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

FeatureDirectoryOptions at(const store::TestArena& arena) {
  return {.directory = arena.directory(), .refresh = std::chrono::milliseconds(5)};
}

void post_record(Client& client, std::string_view prefix) {
  ASSERT_TRUE(client.post(R"({"sluice_vllm":1,"record":{"role":"ec_producer","prefix":")" +
                          std::string(prefix) + "\"}}"));
}

void put_feature(Client& client, std::string_view prefix, std::string_view id) {
  const auto data = store::pattern(64, 1);
  const TensorInput input = store::bytes_tensor(data);
  const auto key = ObjectKey::parse(std::string(prefix) + "@id:" + std::string(id));
  ASSERT_TRUE(key) << key.error().message;
  const Attributes attributes = {{"image_grid_thw", std::vector<std::int64_t>{1, 24, 32}},
                                 {"modality", std::string("image")},
                                 {"rows", std::vector<std::int64_t>{192}}};
  ASSERT_TRUE(client.put(*key, std::span(&input, 1), attributes));
}

TEST(FeatureDirectory, FindsAFeatureUnderAPrefixThatAnEnginePosted) {
  store::TestArena arena;
  const auto engine = arena.client({.label = "engine"});
  post_record(*engine, kPrefix);
  put_feature(*engine, kPrefix, "abc");
  const FeatureDirectory directory(at(arena));
  ASSERT_TRUE(eventually([&] { return directory.counts().prefixes == 1; }));
  const auto found = directory.find("org/m", "abc");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->metadata, R"({"image_grid_thw":[1,24,32]})");
  EXPECT_TRUE(found->lease);
  EXPECT_FALSE(directory.find("org/m", "other"));
}

TEST(FeatureDirectory, AnotherTenantsOrModelsFeaturesAreNotFound) {
  store::TestArena arena;
  const auto engine = arena.client({.label = "engine"});
  std::string foreign(kPrefix);
  foreign.replace(foreign.find("default"), 7, "someone");
  post_record(*engine, foreign);
  put_feature(*engine, foreign, "abc");
  const auto second = arena.client({.label = "engine2"});
  std::string other(kPrefix);
  other.replace(other.find("org%2Fm"), 7, "org%2Fn");
  post_record(*second, other);
  put_feature(*second, other, "abc");
  const auto third = arena.client({.label = "engine3"});
  post_record(*third, kPrefix);
  const FeatureDirectory directory(at(arena));
  ASSERT_TRUE(eventually([&] { return directory.counts().prefixes == 2; }));
  EXPECT_FALSE(directory.find("org/m", "abc"));
  EXPECT_TRUE(directory.find("n", "abc"));
}

TEST(FeatureDirectory, WithoutAnArenaNothingIsFoundAndOneIsTakenWhenItComes) {
  store::TestArena arena;
  arena.stop();
  FeatureDirectory directory(at(arena));
  ASSERT_TRUE(eventually([&] { return directory.counts().attach_failures > 0; }));
  EXPECT_FALSE(directory.find("m", "abc"));
  directory.end_handoff("00000000000000000000000000000000", true);
  ASSERT_TRUE(eventually([&] { return directory.counts().end_failures == 1; }));
  arena.start();
  const auto engine = arena.client({.label = "engine"});
  post_record(*engine, kPrefix);
  put_feature(*engine, kPrefix, "abc");
  EXPECT_TRUE(eventually([&] { return directory.find("m", "abc").has_value(); }));
}

TEST(FeatureDirectory, EndingAHandoffRemovesItsPartsAndNoOthers) {
  store::TestArena arena;
  const auto engine = arena.client({.label = "engine"});
  const std::string ended(kv::kHandoffIdDigits, 'a'), other(kv::kHandoffIdDigits, 'b');
  const auto keys = kv::HandoffKeys::make("default", ended).value();
  const ObjectKey foreign = kv::HandoffKeys::make("default", other).value().part({});
  const auto data = store::pattern(64, 1);
  const TensorInput input = store::bytes_tensor(data);
  for (const ObjectKey& key : {keys.part({}), keys.commit(0, 0), foreign}) {
    ASSERT_TRUE(engine->put(key, std::span(&input, 1)));
  }
  FeatureDirectory directory(at(arena));
  ASSERT_TRUE(eventually([&] { return directory.counts().attached; }));
  EXPECT_TRUE(eventually([&] { return directory.handoff_has_begun(ended); }));
  directory.end_handoff(ended, true);
  directory.end_handoff(ended, true);
  ASSERT_TRUE(eventually([&] { return directory.counts().ended == 2; }));
  EXPECT_EQ(directory.counts().objects_removed, 2u);
  EXPECT_FALSE(directory.handoff_has_begun(ended));
  EXPECT_TRUE(directory.handoff_has_begun(other));
  directory.end_handoff("no name of a hand-off", true);
  EXPECT_TRUE(eventually([&] { return directory.counts().end_failures == 1; }));
}

TEST(FeatureDirectory, WhatAWriterPutsAfterItsHandoffWasEndedIsRemovedAsWell) {
  store::TestArena arena;
  const auto engine = arena.client({.label = "engine"});
  const std::string name(kv::kHandoffIdDigits, 'a');
  const auto keys = kv::HandoffKeys::make("default", name).value();
  FeatureDirectory directory(at(arena));
  ASSERT_TRUE(eventually([&] { return directory.counts().attached; }));
  directory.end_handoff(name, false);
  ASSERT_TRUE(eventually([&] { return directory.counts().ended == 1; }));
  const auto data = store::pattern(64, 1);
  const TensorInput input = store::bytes_tensor(data);
  ASSERT_TRUE(engine->put(keys.commit(0, 0), std::span(&input, 1)));
  EXPECT_TRUE(eventually([&] { return directory.counts().objects_removed == 1; }));
  EXPECT_EQ(engine->lookup(keys.commit(0, 0)), Presence::kAbsent);
}

}  // namespace
}  // namespace sluice::proxy
