#include "common/daemon_settings.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sluice::app {
namespace {

Result<DaemonSettings> with(const Layer& flags) {
  return resolve_daemon_settings(merge(
      daemon_settings_table(), {.file = {}, .file_path = "", .environment = {}, .flags = flags}));
}

TEST(DaemonSettings, TheDefaultsOfTheTableAreValid) {
  const auto settings = with({});
  ASSERT_TRUE(settings.has_value()) << settings.error().message;
  EXPECT_EQ(settings->store.arena_bytes, std::uint64_t{1} << 30);
  EXPECT_EQ(settings->store.directory_mode, 0700u);
  EXPECT_EQ(settings->admin_host, "127.0.0.1");
  EXPECT_TRUE(settings->admin);
  EXPECT_TRUE(settings->store.directory.ends_with("-default")) << settings->store.directory;
}

TEST(DaemonSettings, AnAddressBeyondLoopbackIsRefused) {
  for (const char* host : {"0.0.0.0", "192.168.0.1", "::", "2001:db8::1", "example.org", ""}) {
    const auto settings = with({{"admin-host", host}});
    ASSERT_FALSE(settings.has_value()) << host;
    EXPECT_NE(settings.error().message.find("admin-host"), std::string::npos);
  }
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    EXPECT_TRUE(with({{"admin-host", host}}).has_value()) << host;
  }
}

TEST(DaemonSettings, EveryWrongValueIsRefusedNamingItsSettingAndSource) {
  const std::vector<std::pair<const char*, const char*>> wrong = {
      {"size", "12Q"},           {"size", "1K"},
      {"segment-size", "2G"},    {"segment-size", "1M"},
      {"objects-max", "0"},      {"objects-max", "-1"},
      {"objects-max", "1e9"},    {"huge-pages", "always"},
      {"mode", "0777"},          {"mode", "rwx"},
      {"mode", "0600"},          {"high-watermark", "1.5"},
      {"low-watermark", "0.99"}, {"touch", "perhaps"},
      {"admin-port", "65536"},   {"admin-port", "on"},
      {"body-max", "0"},         {"log-level", "loud"},
      {"log-format", "xml"},     {"drain-timeout", "10"},
      {"arena", "a/b"},          {"arena", ""},
      {"directory", "relative"}, {"reserved-per-client", "2G"},
  };
  for (const auto& [name, value] : wrong) {
    const auto settings = with({{name, value}});
    ASSERT_FALSE(settings.has_value()) << name << "=" << value;
    EXPECT_EQ(settings.error().code, Code::kInvalidArgument);
    EXPECT_NE(settings.error().message.find(name), std::string::npos) << settings.error().message;
  }
}

TEST(DaemonSettings, AdminPortOffMeansNoListener) {
  const auto settings = with({{"admin-port", "off"}});
  ASSERT_TRUE(settings.has_value());
  EXPECT_FALSE(settings->admin);
}

TEST(DaemonSettings, EveryRowHasHelpAndAFormAndAUniqueName) {
  std::vector<std::string> names;
  for (const Setting& setting : daemon_settings_table()) {
    EXPECT_FALSE(setting.help.empty()) << setting.name;
    EXPECT_FALSE(setting.form.empty()) << setting.name;
    EXPECT_EQ(std::count(names.begin(), names.end(), setting.name), 0);
    names.push_back(setting.name);
  }
}

}  // namespace
}  // namespace sluice::app
