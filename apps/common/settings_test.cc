#include "common/settings.h"

#include <gtest/gtest.h>

namespace sluice::app {
namespace {

const std::vector<Setting> kTable = {
    {"size", "SIZE", "1G", "size of the arena"},
    {"log-level", "LEVEL", "info", "how much is logged"},
    {"touch", "true|false", "true", "write every page once"},
};

TEST(Settings, AFlagBeatsTheEnvironmentWhichBeatsTheFileWhichBeatsTheDefault) {
  Layers layers{.file = {{"size", "2G"}, {"log-level", "debug"}, {"touch", "false"}},
                .file_path = "a.toml",
                .environment = {{"size", "3G"}, {"log-level", "error"}},
                .flags = {{"size", "4G"}}};
  const auto merged = merge(kTable, layers);
  ASSERT_EQ(merged.size(), 3u);
  EXPECT_EQ(merged[0].value, "4G");
  EXPECT_EQ(merged[0].where, "--size");
  EXPECT_EQ(merged[1].value, "error");
  EXPECT_EQ(merged[1].where, "SLUICE_LOG_LEVEL");
  EXPECT_EQ(merged[2].value, "false");
  EXPECT_EQ(merged[2].where, "a.toml");
  EXPECT_EQ(merge(kTable, {})[1].value, "info");
  EXPECT_EQ(merge(kTable, {})[1].source, Source::kDefault);
}

TEST(Settings, AnUnknownKeyOfAFileIsRefusedWithItsLineAndTheNearestKnownOne) {
  const auto layer = layer_from_toml("size = '1G'\nlog-levle = 'debug'\n", "a.toml", kTable);
  ASSERT_FALSE(layer.has_value());
  EXPECT_EQ(layer.error().code, Code::kInvalidArgument);
  EXPECT_NE(layer.error().message.find("a.toml:2"), std::string::npos) << layer.error().message;
  EXPECT_NE(layer.error().message.find("'log-levle'"), std::string::npos);
  EXPECT_NE(layer.error().message.find("did you mean 'log-level'"), std::string::npos);
}

TEST(Settings, PlainTomlValuesOfEveryTypeBecomeText) {
  const auto layer =
      layer_from_toml("size = 4096\ntouch = false\nlog-level = 'debug'\n", "a.toml", kTable);
  ASSERT_TRUE(layer.has_value()) << layer.error().message;
  EXPECT_EQ(layer->at("size"), "4096");
  EXPECT_EQ(layer->at("touch"), "false");
  EXPECT_EQ(layer->at("log-level"), "debug");
}

TEST(Settings, ListsTablesAndBrokenTomlAreRefused) {
  for (const char* text :
       {"size = [1, 2]\n", "[size]\na = 1\n", "size = \n", "size = 1\nsize = 2\n", "= 3"}) {
    const auto layer = layer_from_toml(text, "a.toml", kTable);
    ASSERT_FALSE(layer.has_value()) << text;
    EXPECT_EQ(layer.error().code, Code::kInvalidArgument);
    EXPECT_NE(layer.error().message.find("a.toml"), std::string::npos);
  }
}

TEST(Settings, TheEnvironmentIsAskedForExactlyTheTablesNames) {
  EXPECT_EQ(environment_name("log-level"), "SLUICE_LOG_LEVEL");
  const auto layer = layer_from_environment(
      [](const std::string& name) -> std::optional<std::string> {
        if (name == "SLUICE_SIZE") return "5G";
        return std::nullopt;
      },
      kTable);
  EXPECT_EQ(layer, (Layer{{"size", "5G"}}));
}

TEST(Settings, TheDocumentationTableNamesEverySetting) {
  const std::string table = markdown_table(kTable);
  for (const Setting& setting : kTable) EXPECT_NE(table.find(setting.name), std::string::npos);
  EXPECT_NE(table.find("true\\|false"), std::string::npos);
}

}  // namespace
}  // namespace sluice::app
