#include "options.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "common/exit_code.h"

namespace sluice::cli {
namespace {

std::variant<Invocation, Answer> ask(std::vector<std::string> words) {
  words.insert(words.begin(), "sluice");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return read_invocation(static_cast<int>(words.size()), argv.data());
}

Answer answer_to(std::vector<std::string> words) {
  const auto asked = ask(words);
  const auto* answer = std::get_if<Answer>(&asked);
  EXPECT_NE(answer, nullptr) << words.front();
  return answer != nullptr ? *answer : Answer{-1, ""};
}

TEST(CommandLine, GlobalFlagsStandBeforeOrAfterTheCommand) {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"--arena", "x", "--json", "ls"}, {"ls", "--arena", "x", "--json"}}) {
    const auto asked = ask(words);
    ASSERT_TRUE(std::holds_alternative<Invocation>(asked));
    EXPECT_EQ(std::get<Invocation>(asked).global.arena, "x");
    EXPECT_TRUE(std::get<Invocation>(asked).global.look.json);
    EXPECT_TRUE(std::holds_alternative<LsCommand>(std::get<Invocation>(asked).command));
  }
}

TEST(CommandLine, AFlagsValueIsNoCommand) {
  EXPECT_NE(answer_to({"--arena", "x", "top", "--wrong"}).text.find("--wrong"), std::string::npos);
  EXPECT_NE(answer_to({"--arena", "x", "tpo"}).text.find("did you mean 'top'"), std::string::npos);
}

TEST(CommandLine, TheEnvironmentNamesTheArenaUnlessAFlagDoes) {
  ::setenv("SLUICE_ARENA", "from-environment", 1);
  EXPECT_EQ(std::get<Invocation>(ask({"ls"})).global.arena, "from-environment");
  EXPECT_EQ(std::get<Invocation>(ask({"ls", "--arena", "y"})).global.arena, "y");
  ::unsetenv("SLUICE_ARENA");
}

TEST(CommandLine, MistakesAreUsageErrorsThatSayWhatWouldBeRight) {
  EXPECT_EQ(answer_to({"lss"}).exit_code, app::kExitUsage);
  EXPECT_NE(answer_to({"lss"}).text.find("did you mean 'ls'"), std::string::npos)
      << answer_to({"lss"}).text;
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"put", "k"},
                                             {"get", "k"},
                                             {"rm"},
                                             {"rm", "k", "--prefix", "p"},
                                             {"put", "k", "f", "--soft-pin", "10"},
                                             {"put", "k", "f", "--soft-pin", "10s", "--pin"},
                                             {"bench", "--size", "12Q"},
                                             {"bench", "--size", "0"},
                                             {"get", "k", "f", "--format", "pickle"},
                                             {"top", "--interval", "0"},
                                             {"top", "--once", "--count", "2"},
                                             {"ls", "--wrong"},
                                             {"completion", "tcsh"},
                                             {"up"},
                                             {"up", "f.toml", "--model", "m"},
                                             {"ls", "--timeout", "5"}}) {
    EXPECT_EQ(answer_to(words).exit_code, app::kExitUsage) << words.front() << " " << words.back();
  }
}

TEST(CommandLine, EveryCommandHasHelp) {
  for (const char* name :
       {"ls", "stat", "put", "get", "rm", "top", "bench", "doctor", "up", "config", "completion"}) {
    const Answer answer = answer_to({name, "--help"});
    EXPECT_EQ(answer.exit_code, app::kExitOk);
    EXPECT_FALSE(answer.text.empty());
    EXPECT_NE(answer_to({"--help"}).text.find(name), std::string::npos);
  }
}

TEST(CommandLine, UpTakesAFileOrAModelAndPassesTheRestOn) {
  const auto asked = ask({"up", "--model", "m", "--port", "9000", "--ready-timeout", "90s",
                          "--engine-arg=--dtype=bfloat16", "--engine-arg", "x"});
  ASSERT_TRUE(std::holds_alternative<Invocation>(asked)) << std::get<Answer>(asked).text;
  const auto& up = std::get<UpCommand>(std::get<Invocation>(asked).command);
  EXPECT_EQ(up.model, "m");
  EXPECT_EQ(up.ready_timeout, std::chrono::seconds(90));
  EXPECT_EQ(up.engine_args, (std::vector<std::string>{"--dtype=bfloat16", "x"}));
}

TEST(CommandLine, ConfigShowsWhatWasSaidHereForTheDaemonToo) {
  const auto asked = ask({"config", "--arena", "z"});
  ASSERT_TRUE(std::holds_alternative<Invocation>(asked));
  const auto& config = std::get<ConfigCommand>(std::get<Invocation>(asked).command);
  EXPECT_EQ(config.own.front().value, "z");
  EXPECT_EQ(config.own.front().where, "--arena");
  EXPECT_EQ(config.daemon.front().value, "z");
}

}  // namespace
}  // namespace sluice::cli
