#include "proxy/feature_directory.h"

#include <functional>

#include <gtest/gtest.h>

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
  directory.end_handoff("00000000000000000000000000000000");
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
  const auto part = [](std::string_view id) {
    return ObjectKey::make({.tenant = "default",
                            .kind = ObjectKind::kKvHandoff,
                            .model = "kv",
                            .revision = "1",
                            .encoder = "none",
                            .dtype = "uint8",
                            .id = std::string(id)});
  };
  const auto data = store::pattern(64, 1);
  const TensorInput input = store::bytes_tensor(data);
  for (const char* id : {"aa.0.0.0", "aa.0.0.end", "ab.0.0.0"}) {
    ASSERT_TRUE(engine->put(*part(id), std::span(&input, 1)));
  }
  FeatureDirectory directory(at(arena));
  ASSERT_TRUE(eventually([&] { return directory.counts().attached; }));
  directory.end_handoff("aa");
  directory.end_handoff("aa");
  ASSERT_TRUE(eventually([&] { return directory.counts().ended == 2; }));
  EXPECT_EQ(directory.counts().objects_removed, 2u);
  EXPECT_EQ(engine->lookup(*part("aa.0.0.0")), Presence::kAbsent);
  EXPECT_EQ(engine->lookup(*part("ab.0.0.0")), Presence::kPresent);
}

}  // namespace
}  // namespace sluice::proxy
