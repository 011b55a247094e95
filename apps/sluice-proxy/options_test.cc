#include "sluice-proxy/options.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/exit_code.h"

namespace sluice::proxy_app {
namespace {

std::variant<Invocation, app::Answer> ask(std::vector<std::string> words) {
  words.insert(words.begin(), "sluice-proxy");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return read_invocation(static_cast<int>(words.size()), argv.data());
}

app::Answer answer_to(std::vector<std::string> words) {
  auto asked = ask(std::move(words));
  const auto* answer = std::get_if<app::Answer>(&asked);
  EXPECT_NE(answer, nullptr);
  return answer != nullptr ? *answer : app::Answer{-1, ""};
}

ProxySettings settings_of(std::vector<std::string> words) {
  auto asked = ask(std::move(words));
  auto* invocation = std::get_if<Invocation>(&asked);
  if (invocation == nullptr) {
    ADD_FAILURE() << std::get<app::Answer>(asked).text;
    return {};
  }
  return std::move(invocation->settings);
}

class ProxyOptionsTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const char* name :
         {"SLUICE_QUEUE_MAX", "SLUICE_PROXY_CONFIG", "SLUICE_TOKEN", "SLUICE_ENGINE_TOKEN"})
      ::unsetenv(name);
    for (const std::string& file : files_) std::filesystem::remove(file);
  }
  std::string file(const std::string& name, const std::string& text, mode_t mode = 0644) {
    files_.push_back(::testing::TempDir() + "sluice-proxy-" + name);
    std::ofstream(files_.back()) << text;
    ::chmod(files_.back().c_str(), mode);
    return files_.back();
  }
  std::vector<std::string> files_;
};

TEST_F(ProxyOptionsTest, AFlagWinsOverTheEnvironmentAndThatOverTheFile) {
  const std::string path = file("a.toml", "queue-max = 5\nthreads = 3\n");
  ::setenv("SLUICE_QUEUE_MAX", "6", 1);
  const auto from_environment = settings_of({"--config", path});
  EXPECT_EQ(from_environment.proxy.pools.pools[proxy::kDecodeRole].queue_max, 6u);
  EXPECT_EQ(from_environment.proxy.threads, 3u);
  const auto from_flag = settings_of({"--config", path, "--queue-max", "7"});
  EXPECT_EQ(from_flag.proxy.pools.pools[proxy::kEncoderRole].queue_max, 7u);
}

TEST_F(ProxyOptionsTest, AnUnknownFlagIsAUsageErrorAndAnUnknownKeyABadConfiguration) {
  EXPECT_EQ(answer_to({"--prot", "1"}).exit_code, app::kExitUsage);
  const app::Answer key = answer_to({"--config", file("b.toml", "queue-mx = 5\n")});
  EXPECT_EQ(key.exit_code, app::kExitBadConfig);
  EXPECT_NE(key.text.find("queue-max"), std::string::npos) << key.text;
  const app::Answer inner =
      answer_to({"--config", file("c.toml", "[[instance]]\nrol = 'decode'\n")});
  EXPECT_EQ(inner.exit_code, app::kExitBadConfig);
  EXPECT_NE(inner.text.find("instance.rol"), std::string::npos) << inner.text;
}

TEST_F(ProxyOptionsTest, AWrongValueIsNamedWithItsSource) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"port", "70000"},
                                                        {"host", "example.org"},
                                                        {"threads", "0"},
                                                        {"request-timeout", "soon"},
                                                        {"on-failure", "maybe"},
                                                        {"retry-share", "200%"},
                                                        {"tenant", ""},
                                                        {"running-max", "0"},
                                                        {"log-level", "loud"}}) {
    const app::Answer answer = answer_to({"--" + name, value});
    EXPECT_EQ(answer.exit_code, app::kExitBadConfig) << name;
    EXPECT_NE(answer.text.find(name), std::string::npos) << answer.text;
  }
  EXPECT_EQ(answer_to({"--request-timeout", "2h"}).exit_code, app::kExitBadConfig);
}

TEST_F(ProxyOptionsTest, BeyondLoopbackATokenIsNeeded) {
  for (const char* host : {"0.0.0.0", "::", "192.0.2.1"}) {
    EXPECT_EQ(answer_to({"--host", host}).exit_code, app::kExitBadConfig) << host;
  }
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"}) {
    EXPECT_FALSE(settings_of({"--host", host}).proxy.beyond_loopback) << host;
  }
  ::setenv("SLUICE_TOKEN", "secret-1", 1);
  EXPECT_TRUE(settings_of({"--host", "::"}).proxy.beyond_loopback);
  ::setenv("SLUICE_TOKEN", "", 1);
  EXPECT_EQ(answer_to({}).exit_code, app::kExitBadConfig);
  ::unsetenv("SLUICE_TOKEN");
  EXPECT_EQ(answer_to({"--require-token", "always"}).exit_code, app::kExitBadConfig);
}

TEST_F(ProxyOptionsTest, TokensComeFromPrivateFilesAndAreNeverShown) {
  EXPECT_EQ(answer_to({"--token-file", file("open", "secret-1\n", 0644)}).exit_code,
            app::kExitBadConfig);
  const std::string token = file("private", "secret-1\n", 0600);
  const std::string engine = file("engine", "secret-2\n", 0600);
  const std::vector<std::string> words = {"--token-file", token, "--engine-token-file", engine};
  const auto settings = settings_of(words);
  EXPECT_EQ(settings.proxy.settings.token, "secret-1");
  EXPECT_EQ(settings.proxy.settings.engine_token, "secret-2");
  for (const bool json : {false, true}) {
    auto shown = words;
    shown.emplace_back("--print-config");
    if (json) shown.emplace_back("--json");
    const app::Answer answer = answer_to(shown);
    EXPECT_EQ(answer.exit_code, app::kExitOk);
    EXPECT_EQ(answer.text.find("secret-"), std::string::npos) << answer.text;
  }
}

TEST_F(ProxyOptionsTest, InstancesComeFromFlagsAndTables) {
  const std::string path = file("d.toml",
                                "[[instance]]\nrole = 'encoder'\nurl = 'http://[::1]:1'\n"
                                "running-max = 4\nkeep-alive = '1s'\narena = 'a'\n");
  const auto settings = settings_of({"--config", path, "--instance", "decode=http://127.0.0.1:2",
                                     "--instance", "decode=http://127.0.0.1:3"});
  const auto& instances = settings.proxy.instances;
  ASSERT_EQ(instances.size(), 3u);
  EXPECT_EQ(instances[0].role, proxy::kEncoderRole);
  EXPECT_EQ(instances[0].running_max, 4u);
  EXPECT_EQ(instances[0].keep_alive, std::chrono::milliseconds(1000));
  EXPECT_EQ(instances[2].endpoint.port, 3);
  EXPECT_EQ(answer_to({"--instance", "decode"}).exit_code, app::kExitBadConfig);
  EXPECT_EQ(answer_to({"--instance", "chef=http://127.0.0.1:2"}).exit_code, app::kExitBadConfig);
  EXPECT_EQ(answer_to({"--instance", "decode=http://192.0.2.1:2"}).exit_code, app::kExitBadConfig);
  EXPECT_EQ(
      settings_of({"--instance", "decode=http://192.0.2.1:2", "--allow-remote-engines", "true"})
          .proxy.instances.size(),
      1u);
}

TEST_F(ProxyOptionsTest, TheArenaCanBeLeftOut) {
  EXPECT_TRUE(settings_of({}).proxy.arena);
  EXPECT_FALSE(settings_of({"--arena", "off"}).proxy.arena);
  EXPECT_EQ(settings_of({"--arena-directory", "/dev/shm/x"}).proxy.arena->directory, "/dev/shm/x");
}

TEST_F(ProxyOptionsTest, HelpVersionAndTableAreAnswers) {
  EXPECT_EQ(answer_to({"--help"}).exit_code, app::kExitOk);
  EXPECT_EQ(answer_to({"--version"}).text.find("sluice-proxy "), 0u);
  const app::Answer table = answer_to({"--settings-table"});
  EXPECT_NE(table.text.find("`SLUICE_ENGINE_KEEP_ALIVE`"), std::string::npos);
}

}  // namespace
}  // namespace sluice::proxy_app
