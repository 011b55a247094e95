#include "common/line_stream.h"

#include <array>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spdlog/logger.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace sluice::app {
namespace {

std::string loss(std::uint64_t count) {
  return "lost " + std::to_string(count);
}

// The stream of a test: a pipe that holds one page until it is read.
struct Pipe {
  Pipe() {
    std::array<int, 2> fds{};
    EXPECT_EQ(::pipe2(fds.data(), O_CLOEXEC), 0);
    read_end.reset(fds[0]);
    write_end.reset(fds[1]);
    EXPECT_EQ(::fcntl(fds[1], F_SETPIPE_SZ, 4096), 4096);
  }

  // Until the line came, or for ten seconds.
  std::string read_to(const std::string& line) {
    EXPECT_NE(::fcntl(read_end.get(), F_SETFL, O_NONBLOCK), -1);
    const Instant deadline = now() + 10'000 * kNsPerMs;
    std::string text;
    while (!text.ends_with(line + "\n") && now() < deadline) {
      std::array<char, 4096> buffer;
      const ssize_t n = ::read(read_end.get(), buffer.data(), buffer.size());
      if (n > 0) text.append(buffer.data(), static_cast<std::size_t>(n));
    }
    return text;
  }

  UniqueFd read_end, write_end;
};

TEST(LineStream, LinesComeInOrder) {
  Pipe pipe;
  LineStream stream(pipe.write_end.get(), "test", "%l %v", loss);
  std::string expected;
  for (int n = 0; n < 1000; ++n) {
    stream.logger().info("line {}", n);
    expected += "info line " + std::to_string(n) + "\n";
  }
  stream.logger().flush();
  EXPECT_EQ(pipe.read_to("line 999"), expected);
  EXPECT_EQ(stream.lost(), 0u);
}

TEST(LineStream, WhoLogsDoesNotWaitForAReaderThatStandsStill) {
  Pipe pipe;
  LineStream stream(pipe.write_end.get(), "test", "%v", loss);
  stream.logger().flush_on(spdlog::level::info);
  // Ten times what pipe and queue hold: without the promise the test would hang here.
  const std::uint64_t lines = 10 * kLinesMax;
  for (std::uint64_t n = 0; n < lines; ++n) stream.logger().info("line {}", n);
  EXPECT_GT(stream.lost(), lines / 2);

  // Once it is read again, every line is there or counted, in order, the newest one at the end.
  std::istringstream text(pipe.read_to("line " + std::to_string(lines - 1)));
  std::uint64_t next = 0;
  std::uint64_t seen = 0;
  std::uint64_t told = 0;
  std::string word;
  for (std::uint64_t number = 0; text >> word >> number;) {
    if (word == "lost") {
      told += number;
    } else {
      EXPECT_GE(number, next);
      next = number + 1;
      ++seen;
    }
  }
  EXPECT_EQ(next, lines);
  EXPECT_EQ(seen + told, lines);
  EXPECT_EQ(told, stream.lost());
}

TEST(LineStream, FlushesCostNoLineWhileTheReaderStandsStill) {
  Pipe pipe;
  LineStream stream(pipe.write_end.get(), "test", "%v", loss);
  stream.logger().flush_on(spdlog::level::info);
  for (std::size_t n = 0; n < kLinesMax / 2; ++n) stream.logger().info("line {}", n);
  for (std::size_t n = 0; n < 2 * kLinesMax; ++n) stream.flush();
  EXPECT_EQ(stream.lost(), 0u);
  pipe.read_to("line " + std::to_string(kLinesMax / 2 - 1));
}

TEST(LineStream, AStreamThatIsNeverReadDoesNotKeepItsOwner) {
  Pipe pipe;
  const Instant start = now();
  {
    LineStream stream(pipe.write_end.get(), "test", "%v", loss);
    for (int n = 0; n < 2 * static_cast<int>(kLinesMax); ++n) stream.logger().info("line {}", n);
  }
  EXPECT_LT(now() - start, 30'000 * kNsPerMs);
}

TEST(LineStream, WhatWaitsIsWrittenBeforeTheEnd) {
  Pipe pipe;
  {
    const LineStream stream(pipe.write_end.get(), "test", "%v", loss);
    stream.logger().info("the last words");
  }
  EXPECT_EQ(pipe.read_to("the last words"), "the last words\n");
}

TEST(LineStream, AReaderThatIsGoneEndsNobody) {
  Pipe pipe;
  pipe.read_end.reset();
  LineStream stream(pipe.write_end.get(), "test", "%v", loss);
  stream.logger().info("into the void");
  stream.logger().flush();
  const Instant deadline = now() + 10'000 * kNsPerMs;
  while (stream.lost() == 0 && now() < deadline) sleep_until(now() + kNsPerMs);
  EXPECT_EQ(stream.lost(), 1u);
}

}  // namespace
}  // namespace sluice::app
