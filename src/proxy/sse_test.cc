#include "proxy/sse.h"

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::proxy {
namespace {

TEST(EventFramer, OnlyWholeEventsComeOut) {
  EventFramer framer(1024);
  EXPECT_EQ(*framer.feed("data: a\n"), "");
  EXPECT_TRUE(framer.in_event());
  EXPECT_EQ(*framer.feed("\ndata: b\n\ndata: c"), "data: a\n\ndata: b\n\n");
  EXPECT_EQ(*framer.feed("\r\n\r\n"), "data: c\r\n\r\n");
  EXPECT_FALSE(framer.in_event());
}

TEST(EventFramer, AnEventBeyondTheLimitIsRefused) {
  EventFramer framer(16);
  EXPECT_TRUE(framer.feed("data: 0123456789"));
  const auto refused = framer.feed("0123456789");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kLimit);
}

// Whatever pieces a stream arrives in, what comes out is what went in, cut behind blank lines.
TEST(EventFramer, BytesStayWhatTheyAreHoweverTheyArrive) {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  std::printf("SLUICE_TEST_SEED=%u\n", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::string all;
    std::vector<std::string> events;
    for (unsigned i = 0; i < 1 + random() % 8; ++i) {
      const std::string end = random() % 2 == 0 ? "\n" : "\r\n";
      std::string event = random() % 4 == 0 ? ": keep-alive" + end : "";
      event += "data: " + std::string(random() % 40, 'x') + end + end;
      events.push_back(event);
      all += event;
    }
    EventFramer framer(1 << 16);
    std::vector<std::string> out;
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t size = std::min<std::size_t>(1 + random() % 30, all.size() - at);
      const auto fed = framer.feed(std::string_view(all).substr(at, size));
      ASSERT_TRUE(fed);
      for (std::string_view rest = *fed; !rest.empty();) out.emplace_back(next_event(rest));
      at += size;
    }
    ASSERT_EQ(out, events);
    ASSERT_FALSE(framer.in_event());
  }
}

TEST(EventData, IsTheTextOfTheDataLine) {
  EXPECT_EQ(event_data("data: {\"a\":1}\n\n"), "{\"a\":1}");
  EXPECT_EQ(event_data("event: x\r\ndata:[DONE]\r\n\r\n"), "[DONE]");
  EXPECT_EQ(event_data(": comment\n\n"), "");
  EXPECT_EQ(event_data(""), "");
}

}  // namespace
}  // namespace sluice::proxy
