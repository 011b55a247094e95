// Clients that leave, and the server that leaves: on_gone(), drain() and stop().
#include <atomic>
#include <string>
#include <vector>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

#include "http/front.h"
#include "http/front_fixture.h"
#include "http/test_client.h"
#include "http/test_pace.h"

namespace sluice::http {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

// Handlers that wait, as for an engine, until their client has gone or they are released.
class Waiting {
 public:
  std::atomic<std::size_t> waiting = 0;
  std::atomic<std::size_t> gone = 0;
  std::atomic<bool> released = false;

  asio::awaitable<void> operator()(std::size_t, Exchange& exchange) {
    auto body = co_await exchange.read_body(1000);
    if (!body) co_return;
    asio::steady_timer timer(co_await asio::this_coro::executor);
    bool left = false;
    exchange.on_gone([&] {
      left = true;
      timer.cancel();
    });
    const bool streams = exchange.head().target == "/stream";
    if (streams) {
      static_cast<void>(co_await exchange.begin(200, {}));
      static_cast<void>(co_await write_one(exchange, "first"));
    }
    ++waiting;
    while (!left && !released) {
      timer.expires_after(5ms);
      boost::system::error_code ignored;
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    --waiting;
    if (left) {
      ++gone;
      co_return;
    }
    if (streams) {
      static_cast<void>(co_await exchange.end());
    } else {
      static_cast<void>(co_await exchange.answer(200, {}, "done " + std::string(body->text())));
    }
  }
};

FrontOptions options_of(Waiting& waiting) {
  FrontOptions options;
  options.handle = std::ref(waiting);
  return options;
}

class FrontGone : public ::testing::TestWithParam<const char*> {};

TEST_P(FrontGone, ClientsThatVanishAreNoticedWithin100Milliseconds) {
  constexpr std::size_t kClients = 200;
  Waiting waiting;
  TestFront front(options_of(waiting));
  std::vector<std::unique_ptr<TestClient>> clients;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<TestClient>(front.port()));
    clients.back()->send(std::string("POST ") + GetParam() +
                         " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab");
    // Some have sent their next request as well.
    if (i % 4 == 0) clients.back()->send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  ASSERT_TRUE(eventually([&] { return waiting.waiting == kClients; }, 10s));
  const auto start = Steady::now();
  for (std::size_t i = 0; i < kClients; ++i) {
    if (i % 2 == 0) {
      clients[i]->close();
    } else {
      clients[i]->reset();
    }
  }
  EXPECT_TRUE(eventually([&] { return waiting.gone == kClients; }, 10s)) << waiting.gone;
  EXPECT_LT(Steady::now() - start, 100ms * kPace);
  EXPECT_TRUE(eventually([&] { return front->connections() == 0; }, 5s));
}

INSTANTIATE_TEST_SUITE_P(Case, FrontGone, ::testing::Values("/stream", "/wait"),
                         [](const auto& one) { return std::string(one.param).substr(1); });

TEST(Front, WhatAClientSendsWhileItsRequestIsServedIsNotLost) {
  Waiting waiting;
  TestFront front(options_of(waiting));
  TestClient client(front.port());
  client.send("POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na");
  ASSERT_TRUE(eventually([&] { return waiting.waiting == 1; }, 5s));
  // Header, and a part of the body, in two pieces; the rest comes after the first answer.
  const std::string body(900, 'b');
  client.send("POST /2 HTTP/1.1\r\nHost: x\r\nConten");
  client.send("t-Length: 900\r\n\r\n" + body.substr(0, 100));
  waiting.released = true;
  EXPECT_TRUE(client.read_answer().ends_with("done a"));
  client.send(body.substr(100));
  EXPECT_TRUE(client.read_answer().ends_with("done " + body));
  client.send(
      "POST /3 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  EXPECT_TRUE(client.read_answer().ends_with("done abc"));
  EXPECT_EQ(waiting.gone, 0u);
}

TEST(Front, ACallbackSetAfterTheClientLeftRunsAtOnce) {
  std::atomic<int> called = 0;
  std::atomic<bool> left = false;
  FrontOptions options;
  options.handle = [&](std::size_t, Exchange& exchange) -> asio::awaitable<void> {
    exchange.on_gone([&] { left = true; });
    asio::steady_timer timer(co_await asio::this_coro::executor);
    while (!left) {
      timer.expires_after(1ms);
      co_await timer.async_wait(asio::use_awaitable);
    }
    exchange.on_gone({});
    exchange.on_gone([&] { ++called; });
  };
  TestFront front(std::move(options));
  TestClient client(front.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return front.requests() == 1; }, 5s));
  client.close();
  EXPECT_TRUE(eventually([&] { return front->connections() == 0; }, 5s));
  EXPECT_EQ(called, 1);
}

TEST(Front, DrainClosesIdleConnectionsAndLetsRunningRequestsFinish) {
  Waiting waiting;
  TestFront front(options_of(waiting));
  TestClient idle(front.port());
  TestClient running(front.port());
  TestClient streaming(front.port());
  running.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na");
  streaming.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return waiting.waiting == 2 && front->connections() == 3; }, 5s));
  EXPECT_FALSE(front->drain(50ms));
  EXPECT_EQ(idle.read_all(), "");
  EXPECT_EQ(front->connections(), 2u);
  waiting.released = true;
  EXPECT_TRUE(front->drain(5s));
  const auto answer = running.read_all();
  EXPECT_TRUE(answer.ends_with("done a")) << answer;
  EXPECT_NE(answer.find("Connection: close\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(streaming.read_all().ends_with("5\r\nfirst\r\n0\r\n\r\n"));
  EXPECT_EQ(waiting.gone, 0u);
}

TEST(Front, StopCutsRunningRequestsOffAndTellsTheirHandlers) {
  Waiting waiting;
  TestFront front(options_of(waiting));
  TestClient streaming(front.port());
  TestClient idle(front.port());
  streaming.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return waiting.waiting == 1; }, 5s));
  const auto start = Steady::now();
  front->stop();
  EXPECT_LT(Steady::now() - start, 1s);
  EXPECT_EQ(waiting.gone, 1u);
  EXPECT_EQ(front->connections(), 0u);
  EXPECT_TRUE(streaming.read_all().ends_with("5\r\nfirst\r\n"));
}

TEST(Front, StopWithAHandlerThatNeverReturnsGivesItUpAfterItsGrace) {
  FrontOptions options;
  options.handle = [](std::size_t, Exchange&) -> asio::awaitable<void> {
    asio::steady_timer timer(co_await asio::this_coro::executor, 1h);
    co_await timer.async_wait(asio::use_awaitable);
  };
  TestFront front(std::move(options));
  TestClient client(front.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return front.requests() == 1; }, 5s));
  const auto start = Steady::now();
  front->stop();
  EXPECT_LT(Steady::now() - start, 10s);
  EXPECT_EQ(client.read_all(), "");
}

}  // namespace
}  // namespace sluice::http
