#include "child.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"

namespace sluice::cli {
namespace {

ChildSpec shell(const std::string& script) {
  static int number = 0;
  return {.name = "child",
          .command = {"/bin/sh", "-c", script},
          .environment = {"PATH=/usr/bin:/bin", "GREETING=hello"},
          .log_path = ::testing::TempDir() + "sluice-child-test-" + std::to_string(::getpid()) +
                      "-" + std::to_string(number++) + ".log"};
}

void wait_for_end(Child& child) {
  const Instant deadline = deadline_after(now(), std::chrono::seconds(20));
  while (!child.reap() && now() < deadline) {
    pollfd waiting{child.pid_fd(), POLLIN, 0};
    ::poll(&waiting, 1, 1000);
  }
  ASSERT_TRUE(child.ending().has_value());
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Child, ItsOutputIsInItsLogAndItsLastLinesAreKept) {
  const ChildSpec spec = shell("echo out; echo err >&2; echo $GREETING; printf tail; exit 3");
  auto child = Child::start(spec);
  ASSERT_TRUE(child.has_value()) << child.error().message;
  wait_for_end(*child);
  std::vector<std::string> shown;
  child->pump([&](std::string_view line) { shown.emplace_back(line); });
  EXPECT_EQ(describe(*child->ending()), "exit code 3");
  EXPECT_EQ(shown, (std::vector<std::string>{"out", "err", "hello", "tail"}));
  EXPECT_EQ(text_of(spec.log_path), "out\nerr\nhello\ntail");
  EXPECT_EQ(child->last_lines().size(), 4u);
  std::filesystem::remove(spec.log_path);
}

TEST(Child, AProgramThatIsNotThereSaysSoInTheLog) {
  ChildSpec spec = shell("");
  spec.command = {"/nowhere/at/all"};
  auto child = Child::start(spec);
  ASSERT_TRUE(child.has_value());
  wait_for_end(*child);
  child->pump({});
  EXPECT_EQ(child->ending()->exit_code, 127);
  ASSERT_FALSE(child->last_lines().empty());
  EXPECT_NE(child->last_lines().back().find("/nowhere/at/all"), std::string::npos);
  std::filesystem::remove(spec.log_path);
}

TEST(Child, ItsWholeGroupEndsWithIt) {
  const ChildSpec spec = shell("sleep 1000 & echo $!; exit 0");
  auto child = Child::start(spec);
  ASSERT_TRUE(child.has_value());
  wait_for_end(*child);
  child->pump({});
  ASSERT_FALSE(child->last_lines().empty());
  const pid_t grandchild = static_cast<pid_t>(std::stol(child->last_lines().front()));
  // Killed; gone from the process table once its new parent has taken its end, which is not ours to
  // wait for.
  const Instant deadline = deadline_after(now(), std::chrono::seconds(20));
  bool running = true;
  while (running && now() < deadline) {
    const std::string stat = text_of("/proc/" + std::to_string(grandchild) + "/stat");
    running = !stat.empty() && stat.find(") Z ") == std::string::npos;
  }
  EXPECT_FALSE(running);
  std::filesystem::remove(spec.log_path);
}

TEST(Child, ASignalThatEndedItIsNamed) {
  const ChildSpec spec = shell("kill -9 $$");
  auto child = Child::start(spec);
  ASSERT_TRUE(child.has_value());
  wait_for_end(*child);
  EXPECT_EQ(describe(*child->ending()), "signal 9 (Killed)");
  std::filesystem::remove(spec.log_path);
}

TEST(Child, ALineWithoutEndIsCutAndNothingOfItIsLostInTheLog) {
  const ChildSpec spec = shell("head -c 100000 /dev/zero | tr '\\0' x");
  auto child = Child::start(spec);
  ASSERT_TRUE(child.has_value());
  std::size_t longest = 0;
  const Instant deadline = deadline_after(now(), std::chrono::seconds(20));
  while (child->output_fd() >= 0 && now() < deadline) {
    pollfd waiting{child->output_fd(), POLLIN, 0};
    ::poll(&waiting, 1, 1000);
    child->pump([&](std::string_view line) { longest = std::max(longest, line.size()); });
  }
  wait_for_end(*child);
  EXPECT_LE(longest, 4096u);
  EXPECT_EQ(text_of(spec.log_path).size(), 100000u);
  std::filesystem::remove(spec.log_path);
}

}  // namespace
}  // namespace sluice::cli
