#include "http/upstream.h"

#include <future>
#include <string>
#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include "http/front.h"

namespace sluice::http {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

UpstreamRequest post(std::string target, std::span<const std::string_view> body) {
  return {.target = std::move(target),
          .headers = {{"Content-Type", "text/plain"}},
          .body = body,
          .deadline = std::chrono::steady_clock::now() + 10s};
}

UpstreamRequest get(std::string target) {
  return {.method = "GET",
          .target = std::move(target),
          .headers = {},
          .body = {},
          .deadline = std::chrono::steady_clock::now() + 10s};
}

asio::awaitable<void> engine(std::size_t, Exchange& exchange) {
  auto body = co_await exchange.read_body(64 << 20);
  if (!body) co_return;
  if (exchange.head().target == "/stream") {
    static_cast<void>(co_await exchange.begin(200, {}));
    for (int i = 0; i < 5; ++i) {
      const std::string text = "event " + std::to_string(i) + "\n";
      const std::string_view pieces[] = {text};
      static_cast<void>(co_await exchange.write(pieces));
    }
    static_cast<void>(co_await exchange.end());
    co_return;
  }
  static_cast<void>(co_await exchange.answer(200, {}, std::string(body->text())));
}

class UpstreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FrontOptions options;
    options.handle = engine;
    auto opened = Front::open(std::move(options));
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    front_ = std::move(*opened);
    front_->start();
  }

  template <class Work>
  void run(Work work) {
    asio::io_context io{1};
    UpstreamOptions options;
    options.endpoint = {.host = "127.0.0.1", .port = front_->port()};
    auto upstream = Upstream::make(io, options);
    auto done = asio::co_spawn(io, work(*upstream), asio::use_future);
    io.run_for(30s);
    ASSERT_EQ(done.wait_for(0s), std::future_status::ready) << "it hangs";
    done.get();
    upstream.reset();
  }

  std::unique_ptr<Front> front_;
};

TEST_F(UpstreamTest, SendsABodyInPiecesAndReusesTheConnection) {
  run([](Upstream& upstream) -> asio::awaitable<void> {
    for (int i = 0; i < 3; ++i) {
      const std::string_view body[] = {"ab", "", "cd"};
      const UpstreamRequest request = post("/x", body);
      auto call = co_await upstream.send(request, nullptr);
      EXPECT_TRUE(call.has_value()) << call.error().message;
      if (!call) co_return;
      EXPECT_EQ((*call)->status(), 200u);
      const auto text = co_await (*call)->read_all(1000);
      EXPECT_EQ(text.value_or("failed"), "abcd");
    }
    EXPECT_EQ(upstream.counts().connects, 1u);
    EXPECT_EQ(upstream.counts().reuses, 2u);
    EXPECT_EQ(upstream.counts().idle, 1u);
  });
}

TEST_F(UpstreamTest, HandsAStreamOutAsItComes) {
  run([](Upstream& upstream) -> asio::awaitable<void> {
    const UpstreamRequest request = get("/stream");
    auto call = co_await upstream.send(request, nullptr);
    EXPECT_TRUE(call.has_value()) << call.error().message;
    if (!call) co_return;
    std::string all;
    for (;;) {
      auto piece = co_await (*call)->read();
      EXPECT_TRUE(piece.has_value()) << piece.error().message;
      if (!piece || piece->empty()) break;
      all.append(*piece);
    }
    EXPECT_EQ(all, "event 0\nevent 1\nevent 2\nevent 3\nevent 4\n");
    EXPECT_EQ(upstream.counts().idle, 1u);
  });
}

}  // namespace
}  // namespace sluice::http
