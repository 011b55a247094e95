#include "sluiced/options.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "common/exit_code.h"

namespace sluice::daemon {
namespace {

std::variant<Invocation, app::Answer> ask(std::vector<std::string> words) {
  words.insert(words.begin(), "sluiced");
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

class OptionsTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const char* name :
         {"SLUICE_SIZE", "SLUICE_CONFIG", "SLUICE_TOKEN", "WATCHDOG_USEC", "WATCHDOG_PID"})
      ::unsetenv(name);
    if (!file_.empty()) std::filesystem::remove(file_);
  }
  std::string config(const std::string& text) {
    file_ = ::testing::TempDir() + "sluiced-options-test.toml";
    std::ofstream(file_) << text;
    return file_;
  }
  std::string file_;
};

TEST_F(OptionsTest, AFlagWinsOverTheEnvironmentAndThatOverTheFile) {
  const std::string path = config("size = '2G'\nobjects-max = 7\n");
  ::setenv("SLUICE_SIZE", "3G", 1);
  auto from_environment = ask({"--config", path});
  ASSERT_TRUE(std::holds_alternative<Invocation>(from_environment));
  EXPECT_EQ(std::get<Invocation>(from_environment).settings.store.arena_bytes,
            std::uint64_t{3} << 30);
  EXPECT_EQ(std::get<Invocation>(from_environment).settings.store.objects_max, 7u);
  auto from_flag = ask({"--config", path, "--size", "4G"});
  EXPECT_EQ(std::get<Invocation>(from_flag).settings.store.arena_bytes, std::uint64_t{4} << 30);
}

TEST_F(OptionsTest, AnUnknownFlagIsAUsageErrorAndAnUnknownKeyABadConfiguration) {
  EXPECT_EQ(answer_to({"--sise", "1G"}).exit_code, app::kExitUsage);
  EXPECT_EQ(answer_to({"extra"}).exit_code, app::kExitUsage);
  const app::Answer answer = answer_to({"--config", config("segmnt-size = '1G'\n")});
  EXPECT_EQ(answer.exit_code, app::kExitBadConfig);
  EXPECT_NE(answer.text.find("did you mean 'segment-size'"), std::string::npos) << answer.text;
  EXPECT_EQ(answer_to({"--config", "/nowhere/at/all.toml"}).exit_code, app::kExitBadConfig);
  EXPECT_EQ(answer_to({"--size", "12Q"}).exit_code, app::kExitBadConfig);
  EXPECT_EQ(answer_to({"--admin-host", "0.0.0.0"}).exit_code, app::kExitBadConfig);
}

TEST_F(OptionsTest, PrintConfigSaysWhereEachValueCameFromAndNeverTheToken) {
  ::setenv("SLUICE_TOKEN", "very-secret", 1);
  ::setenv("SLUICE_SIZE", "3G", 1);
  for (const bool as_json : {false, true}) {
    std::vector<std::string> words = {"--print-config", "--objects-max", "9"};
    if (as_json) words.push_back("--json");
    const app::Answer answer = answer_to(words);
    EXPECT_EQ(answer.exit_code, app::kExitOk);
    EXPECT_NE(answer.text.find("SLUICE_SIZE"), std::string::npos);
    EXPECT_NE(answer.text.find("--objects-max"), std::string::npos);
    EXPECT_NE(answer.text.find("default"), std::string::npos);
    EXPECT_EQ(answer.text.find("very-secret"), std::string::npos);
  }
}

TEST_F(OptionsTest, AnEmptyTokenVariableIsRefused) {
  ::setenv("SLUICE_TOKEN", "", 1);
  EXPECT_EQ(answer_to({}).exit_code, app::kExitBadConfig);
}

TEST_F(OptionsTest, TheWatchdogCountsOnlyWhenItMeansThisProcess) {
  ::setenv("WATCHDOG_USEC", "5000000", 1);
  ::setenv("WATCHDOG_PID", "1", 1);
  auto other = ask({});
  EXPECT_EQ(std::get<Invocation>(other).watchdog_us, 0u);
  ::unsetenv("WATCHDOG_PID");
  auto ours = ask({});
  EXPECT_EQ(std::get<Invocation>(ours).watchdog_us, 5'000'000u);
}

TEST_F(OptionsTest, VersionHelpAndTableAreAnswersNotServices) {
  EXPECT_NE(answer_to({"--version"}).text.find("sluiced "), std::string::npos);
  EXPECT_NE(answer_to({"--help"}).text.find("--segment-size"), std::string::npos);
  EXPECT_NE(answer_to({"--settings-table"}).text.find("SLUICE_SEGMENT_SIZE"), std::string::npos);
}

}  // namespace
}  // namespace sluice::daemon
