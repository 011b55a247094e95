#include "http/upstream.h"

#include <string>

#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

#include "http/front_fixture.h"
#include "http/upstream_fixture.h"

namespace sluice::http {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

asio::awaitable<void> wait(std::chrono::milliseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::use_awaitable);
}

TEST(Upstream, SendsABodyInPiecesAndReusesTheConnection) {
  TestFront engine;
  with_upstream(options_to(engine.port()), [](Upstream& upstream) -> asio::awaitable<void> {
    for (int i = 0; i < 3; ++i) {
      const std::string_view body[] = {"ab", "", "cd"};
      const auto request = post("/x", body);
      const auto out = co_await fetch(upstream, request);
      EXPECT_EQ(out.status, 200u);
      EXPECT_EQ(out.body, "POST /x abcd");
    }
    EXPECT_EQ(upstream.counts().connects, 1u);
    EXPECT_EQ(upstream.counts().reuses, 2u);
    EXPECT_EQ(upstream.counts().idle, 1u);
  });
}

TEST(Upstream, SeveralCountTogetherForWhoeverShowsIt) {
  TestFront first, second;
  UpstreamTotals totals;
  for (const TestFront* engine : {&first, &second}) {
    UpstreamOptions options = options_to(engine->port());
    options.totals = &totals;
    with_upstream(std::move(options), [](Upstream& upstream) -> asio::awaitable<void> {
      for (int i = 0; i < 3; ++i) {
        const std::string_view body[] = {"ab"};
        const auto request = post("/x", body);
        const auto out = co_await fetch(upstream, request);
        EXPECT_EQ(out.status, 200u);
      }
    });
  }
  EXPECT_EQ(totals.connects, 2u);
  EXPECT_EQ(totals.reuses, 4u);
  EXPECT_EQ(totals.retries, 0u);
  EXPECT_EQ(totals.failures, 0u);
}

TEST(Upstream, BodiesOfEveryLengthComeBackWhole) {
  TestFront engine;
  with_upstream(options_to(engine.port()), [](Upstream& upstream) -> asio::awaitable<void> {
    for (std::size_t length = 0; length < 9'000; length += length < 300 ? 1 : 397) {
      const std::string text(length, 'x');
      const std::string_view body[] = {text};
      const auto request = post("/x", body);
      const auto out = co_await fetch(upstream, request);
      EXPECT_TRUE(out.whole) << name(out.code);
      EXPECT_EQ(out.body, "POST /x " + text);
      if (!out.whole) co_return;
    }
    EXPECT_EQ(upstream.counts().connects, 1u);
  });
}

TEST(Upstream, LargeBodiesGoBothWaysWhole) {
  TestFront engine;
  with_upstream(options_to(engine.port()), [](Upstream& upstream) -> asio::awaitable<void> {
    std::string large(20 << 20, 'x');
    for (std::size_t i = 0; i < large.size(); i += 101) large[i] = static_cast<char>(i);
    const std::string_view body[] = {std::string_view(large).substr(0, 1'000'003), "--",
                                     std::string_view(large).substr(1'000'003)};
    const auto request = post("/x", body);
    const auto out = co_await fetch(upstream, request);
    EXPECT_TRUE(out.whole);
    EXPECT_TRUE(out.body == "POST /x " + std::string(body[0]) + "--" + std::string(body[2]));
  });
}

TEST(Upstream, SaysWhatItMustAndLeavesOutWhatBelongsToOneHop) {
  ScriptedEngine engine([](EngineSide& side) {
    const auto request = side.read_request();
    side.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(request.size()) + "\r\n\r\n" +
              request);
  });
  with_upstream(options_to(engine.port()), [&](Upstream& upstream) -> asio::awaitable<void> {
    UpstreamRequest request = post("/v1/x?y", {});
    for (const char* name : {"host", "Content-Length", "CONNECTION", "Keep-Alive", "TE", "Expect",
                             "Transfer-Encoding", "Upgrade"}) {
      request.headers.emplace_back(name, "evil");
    }
    request.headers.emplace_back("X-Request-Id", "7");
    const auto out = co_await fetch(upstream, request);
    EXPECT_EQ(out.body,
              "POST /v1/x?y HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(engine.port()) +
                  "\r\nContent-Type: text/plain\r\nX-Request-Id: 7\r\n"
                  "Content-Length: 0\r\n\r\n");
  });
}

TEST(Upstream, ARequestThatCannotBeSaidIsRefused) {
  with_upstream(options_to(1), [](Upstream& upstream) -> asio::awaitable<void> {
    std::vector<UpstreamRequest> bad;
    bad.push_back(get("/a b"));
    bad.push_back(get("a"));
    bad.push_back(get("/a\r\nX: y"));
    bad.push_back(get("/"));
    bad.back().method = "G T";
    bad.push_back(get("/"));
    bad.back().headers.emplace_back("A", "b\r\nC: d");
    bad.push_back(get("/"));
    bad.back().headers.emplace_back("A:", "b");
    for (const auto& request : bad) {
      const auto out = co_await fetch(upstream, request);
      EXPECT_EQ(out.code, Code::kInvalidArgument);
    }
  });
}

TEST(Upstream, HandsOutWhatHasArrivedAndJoinsChunksThatCameTogether) {
  std::promise<void> go_on;
  ScriptedEngine engine([&go_on](EngineSide& side) {
    side.read_request();
    side.send(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n2\r\nde\r\n1\r\nf");
    go_on.get_future().wait();
    side.send("\r\n4\r\nghij\r\n0\r\nT: u\r\n\r\n");
    side.read_request();
    side.send(kOk);
    side.wait_for_close();
  });
  with_upstream(options_to(engine.port()), [&](Upstream& upstream) -> asio::awaitable<void> {
    const auto request = get("/");
    auto call = co_await upstream.send(request, nullptr);
    EXPECT_TRUE(call.has_value());
    if (!call) co_return;
    const auto first = co_await (*call)->read();
    EXPECT_EQ(first.value_or("failed"), "abcdef");
    go_on.set_value();
    const auto second = co_await (*call)->read();
    EXPECT_EQ(second.value_or("failed"), "ghij");
    const auto end = co_await (*call)->read();
    EXPECT_EQ(end.value_or("failed"), "");
    const auto again = co_await (*call)->read();
    EXPECT_EQ(again.value_or("failed"), "");
    EXPECT_EQ(upstream.counts().idle, 1u);
    const auto out = co_await fetch(upstream, request);
    EXPECT_EQ(out.body, "ok");
    EXPECT_EQ(upstream.counts().connects, 1u);
  });
}

TEST(Upstream, ReadsUntilTheEngineClosesWhenNothingSaysTheLength) {
  ScriptedEngine engine([](EngineSide& side) {
    side.read_request();
    side.send("HTTP/1.1 200 OK\r\n\r\nall ");
    side.send("of it");
  });
  with_upstream(options_to(engine.port()), [](Upstream& upstream) -> asio::awaitable<void> {
    const auto request = get("/");
    const auto out = co_await fetch(upstream, request);
    EXPECT_EQ(out.body, "all of it");
    EXPECT_EQ(upstream.counts().idle, 0u);
  });
}

TEST(Upstream, InterimAnswersAreIgnored) {
  ScriptedEngine engine([](EngineSide& side) {
    side.read_request();
    side.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n");
    side.send(kOk);
  });
  with_upstream(options_to(engine.port()), [](Upstream& upstream) -> asio::awaitable<void> {
    const auto request = get("/");
    const auto out = co_await fetch(upstream, request);
    EXPECT_EQ(out.status, 200u);
    EXPECT_EQ(out.body, "ok");
  });
}

TEST(Upstream, AHeadAnd204And304HaveNoBodyAndKeepTheConnection) {
  ScriptedEngine engine([](EngineSide& side) {
    side.read_request();
    side.send("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n");
    side.read_request();
    side.send("HTTP/1.1 204 No Content\r\n\r\n");
    side.read_request();
    side.send("HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n");
    side.wait_for_close();
  });
  with_upstream(options_to(engine.port()), [](Upstream& upstream) -> asio::awaitable<void> {
    for (const char* method : {"HEAD", "GET", "GET"}) {
      auto request = get("/");
      request.method = method;
      const auto out = co_await fetch(upstream, request);
      EXPECT_TRUE(out.whole);
      EXPECT_EQ(out.body, "");
    }
    EXPECT_EQ(upstream.counts().connects, 1u);
  });
}

TEST(Upstream, BrokenAnswersAreErrorsAndTheirConnectionIsNotKept) {
  const std::vector<std::string> answers{
      "garbage\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\nabc",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
      "HTTP/1.1 101 Switching Protocols\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Le",
  };
  ScriptedEngine engine([&answers](EngineSide& side) {
    side.read_request();
    side.send(answers.at(side.number()));
  });
  with_upstream(options_to(engine.port()), [&](Upstream& upstream) -> asio::awaitable<void> {
    for (const auto& answer : answers) {
      const auto request = get("/");
      const auto out = co_await fetch(upstream, request);
      EXPECT_FALSE(out.whole) << answer;
      EXPECT_EQ(out.code, Code::kIo) << answer;
      EXPECT_EQ(upstream.counts().idle, 0u) << answer;
    }
    EXPECT_EQ(upstream.counts().retries, 0u);
  });
}

TEST(Upstream, WhatComesBehindAnAnswerSpoilsTheConnection) {
  ScriptedEngine engine([](EngineSide& side) {
    side.read_request();
    side.send(std::string(kOk) + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    side.wait_for_close();
  });
  with_upstream(options_to(engine.port()), [](Upstream& upstream) -> asio::awaitable<void> {
    for (int i = 0; i < 2; ++i) {
      const auto request = get("/");
      const auto out = co_await fetch(upstream, request);
      EXPECT_EQ(out.body, "ok");
    }
    EXPECT_EQ(upstream.counts().connects, 2u);
  });
}

TEST(Upstream, AnAnswerBeyondItsLimitsIsRefused) {
  ScriptedEngine engine([](EngineSide& side) {
    side.read_request();
    if (side.number() == 0) side.send("HTTP/1.1 200 OK\r\nA: " + std::string(70'000, 'a'));
    if (side.number() == 1) side.send("HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n");
    if (side.number() == 2) side.send("HTTP/1.1 200 OK\r\n\r\n" + std::string(2'000, 'a'));
    side.wait_for_close();
  });
  with_upstream(options_to(engine.port()), [](Upstream& upstream) -> asio::awaitable<void> {
    const auto request = get("/");
    const auto header = co_await fetch(upstream, request);
    EXPECT_EQ(header.code, Code::kLimit);
    for (int i = 0; i < 2; ++i) {
      auto call = co_await upstream.send(request, nullptr);
      EXPECT_TRUE(call.has_value());
      if (!call) co_return;
      const auto body = co_await (*call)->read_all(1'999);
      EXPECT_EQ(body.error().code, Code::kLimit);
    }
    EXPECT_EQ(upstream.counts().idle, 0u);
  });
}

TEST(Upstream, AnEarlyRefusalOfALargeBodyIsRead) {
  ScriptedEngine engine([](EngineSide& side) {
    side.read_head();
    side.send("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig");
  });
  with_upstream(options_to(engine.port()), [](Upstream& upstream) -> asio::awaitable<void> {
    const std::string large(20 << 20, 'x');
    const std::string_view body[] = {large};
    const auto request = post("/", body);
    const auto out = co_await fetch(upstream, request);
    EXPECT_EQ(out.status, 413u);
    EXPECT_EQ(out.body, "big");
    EXPECT_EQ(upstream.counts().idle, 0u);
  });
}

TEST(Upstream, ARequestThatMeetsAClosingConnectionIsSentOnceMore) {
  ScriptedEngine engine([](EngineSide& side) {
    side.read_request();
    side.send(kOk);
    side.read_request();
    if (side.number() == 0) return;  // as if it had closed before it came
    side.send(kOk);
    side.wait_for_close();
  });
  with_upstream(options_to(engine.port()), [](Upstream& upstream) -> asio::awaitable<void> {
    const std::string_view body[] = {"abc"};
    const auto request = post("/", body);
    auto out = co_await fetch(upstream, request);
    EXPECT_EQ(out.body, "ok");
    out = co_await fetch(upstream, request);
    EXPECT_EQ(out.body, "ok");
    EXPECT_EQ(upstream.counts().retries, 1u);
    EXPECT_EQ(upstream.counts().connects, 2u);
    EXPECT_EQ(upstream.counts().failures, 0u);
  });
}

TEST(Upstream, ARequestIsNotRepeatedOnAFreshConnectionOrAfterAByteOfAnAnswer) {
  ScriptedEngine engine([](EngineSide& side) {
    side.read_request();
    if (side.number() != 1) return;  // closes without an answer
    side.send(kOk);
    side.read_request();
    side.send("HTTP/1.1 2");
  });
  with_upstream(options_to(engine.port()), [](Upstream& upstream) -> asio::awaitable<void> {
    const auto request = get("/");
    auto out = co_await fetch(upstream, request);
    EXPECT_EQ(out.code, Code::kUnavailable);
    EXPECT_EQ(upstream.counts().connects, 1u);
    out = co_await fetch(upstream, request);
    EXPECT_EQ(out.body, "ok");
    out = co_await fetch(upstream, request);
    EXPECT_EQ(out.code, Code::kIo);
    EXPECT_EQ(upstream.counts().retries, 0u);
    EXPECT_EQ(upstream.counts().failures, 2u);
  });
}

TEST(Upstream, AConnectionThatTheEngineClosedWhileIdleIsNotUsed) {
  ScriptedEngine engine([](EngineSide& side) {
    side.read_request();
    side.send(kOk);
  });
  with_upstream(options_to(engine.port()), [&](Upstream& upstream) -> asio::awaitable<void> {
    const auto request = get("/");
    for (std::size_t i = 0; i < 3; ++i) {
      const auto out = co_await fetch(upstream, request);
      EXPECT_EQ(out.body, "ok");
      while (engine.closed() <= i) co_await wait(1ms);
    }
    EXPECT_EQ(upstream.counts().connects, 3u);
    EXPECT_EQ(upstream.counts().retries, 0u);
  });
}

TEST(Upstream, IdleConnectionsAreClosedBeforeTheEngineWould) {
  ScriptedEngine engine([](EngineSide& side) {
    for (std::string answer =
             "HTTP/1.1 200 OK\r\nKeep-Alive: max=9, timeout=1\r\n"
             "Content-Length: 2\r\n\r\nok";
         !side.read_request().empty();) {
      side.send(answer);
    }
  });
  with_upstream(options_to(engine.port()), [&](Upstream& upstream) -> asio::awaitable<void> {
    const auto request = get("/");
    const auto out = co_await fetch(upstream, request);
    EXPECT_EQ(out.body, "ok");
    EXPECT_EQ(upstream.counts().idle, 1u);
    const auto start = Steady::now();
    while (engine.closed() == 0) co_await wait(5ms);
    EXPECT_GE(Steady::now() - start, 500ms);
    EXPECT_LT(Steady::now() - start, 1'000ms);  // of its own second, less the way
    EXPECT_EQ(upstream.counts().idle, 0u);
  });
}

TEST(Upstream, WithoutIdleTimeNothingIsReusedAndTheEngineIsTold) {
  ScriptedEngine engine([](EngineSide& side) {
    EXPECT_NE(side.read_request().find("\r\nConnection: close\r\n"), std::string::npos);
    side.send(kOk);
    side.wait_for_close();
  });
  auto options = options_to(engine.port());
  options.idle_max = 0ms;
  with_upstream(options, [](Upstream& upstream) -> asio::awaitable<void> {
    const auto request = get("/");
    for (int i = 0; i < 2; ++i) {
      const auto out = co_await fetch(upstream, request);
      EXPECT_EQ(out.body, "ok");
    }
    EXPECT_EQ(upstream.counts().connects, 2u);
    EXPECT_EQ(upstream.counts().idle, 0u);
  });
}

TEST(Upstream, KeepsNoMoreIdleConnectionsThanItMay) {
  TestFront engine;
  auto options = options_to(engine.port());
  options.idle_connections_max = 2;
  with_upstream(options, [](Upstream& upstream) -> asio::awaitable<void> {
    std::vector<std::unique_ptr<Call>> calls;
    const auto request = get("/");
    for (int i = 0; i < 5; ++i) {
      auto call = co_await upstream.send(request, nullptr);
      EXPECT_TRUE(call.has_value());
      if (call) calls.push_back(std::move(*call));
    }
    for (auto& call : calls) static_cast<void>(co_await call->read_all(100));
    EXPECT_EQ(upstream.counts().connects, 5u);
    EXPECT_EQ(upstream.counts().idle, 2u);
  });
}

TEST(Upstream, ManyRequestsWithGapsAroundTheEnginesKeepAliveAllSucceed) {
  // An engine that closes after 20 to 40 ms, and a pool that was told nothing of it.
  TestFront engine({.limits = {.idle_timeout = 20ms}});
  auto options = options_to(engine.port());
  options.idle_max = 60s;
  std::uint64_t stale = 0;
  with_upstream(options, [&](Upstream& upstream) -> asio::awaitable<void> {
    std::size_t running = 0;
    std::size_t good = 0;
    const auto one = [&](int first) -> asio::awaitable<void> {
      const std::string_view body[] = {"abc"};
      for (int i = 0; i < 60; ++i) {
        const auto request = post("/x", body);
        const auto out = co_await fetch(upstream, request);
        EXPECT_EQ(out.body, "POST /x abc") << name(out.code);
        good += out.whole ? 1 : 0;
        co_await wait(std::chrono::milliseconds(15 + (first + i * 7) % 30));
      }
      --running;
    };
    for (int i = 0; i < 16; ++i) {
      ++running;
      asio::co_spawn(co_await asio::this_coro::executor, one(i), asio::detached);
    }
    while (running > 0) co_await wait(5ms);
    EXPECT_EQ(good, 16u * 60);
    EXPECT_EQ(upstream.counts().failures, 0u);
    stale = upstream.counts().connects;
  });
  EXPECT_GT(stale, 32u) << "no connection was closed in between; the test shows nothing";
}

TEST(Upstream, NobodyThereIsUnavailable) {
  std::uint16_t port = 0;
  {
    TestFront gone;
    port = gone.port();
  }
  with_upstream(options_to(port), [](Upstream& upstream) -> asio::awaitable<void> {
    const auto request = get("/");
    const auto out = co_await fetch(upstream, request);
    EXPECT_EQ(out.code, Code::kUnavailable);
    EXPECT_EQ(upstream.counts().failures, 1u);
  });
}

TEST(Upstream, NamesAndIPv6LiteralsAreReached) {
  TestFront four;
  auto options = options_to(four.port());
  options.endpoint.host = "localhost";
  with_upstream(options, [](Upstream& upstream) -> asio::awaitable<void> {
    const auto request = get("/");
    const auto out = co_await fetch(upstream, request);
    EXPECT_EQ(out.body, "GET / ");
  });
  TestFront six({.host = "::1"});
  options = options_to(six.port());
  options.endpoint.host = "::1";
  with_upstream(options, [](Upstream& upstream) -> asio::awaitable<void> {
    const auto request = get("/");
    const auto out = co_await fetch(upstream, request);
    EXPECT_EQ(out.body, "GET / ");
  });
}

TEST(Upstream, ACallMayOutliveItsUpstream) {
  TestFront engine;
  asio::io_context io{1};
  auto upstream = Upstream::make(io, options_to(engine.port()));
  const auto all = [&]() -> asio::awaitable<void> {
    const auto request = get("/");
    auto call = co_await upstream->send(request, nullptr);
    EXPECT_TRUE(call.has_value());
    if (!call) co_return;
    upstream.reset();
    const auto body = co_await (*call)->read_all(100);
    EXPECT_EQ(body.value_or("failed"), "GET / ");
  };
  auto done = asio::co_spawn(io, all(), asio::use_future);
  io.run_for(10s);
  done.get();
}

TEST(Endpoint, ParsesWhatAUrlMayBe) {
  const auto text = [](std::string_view url) {
    const auto parsed = Endpoint::parse(url);
    return parsed ? parsed->text() : "refused";
  };
  EXPECT_EQ(text("http://127.0.0.1:8000"), "http://127.0.0.1:8000");
  EXPECT_EQ(text("HTTP://engine-1.local/"), "http://engine-1.local:80");
  EXPECT_EQ(text("http://[::1]:8000/"), "http://[::1]:8000");
  EXPECT_EQ(text("http://[fe80::2]"), "http://[fe80::2]:80");
  for (const std::string_view bad :
       {"", "http://", "https://a:1", "a:1", "http://a:0", "http://a:65536",
        "http://a:", "http://a:x", "http://a:1/path", "http://u@a:1", "http://::1:80",
        "http://[::1", "http://[a]:1", "http://[::1]8", "http://a b:1", "http://a:+1",
        "http://a:1 ", "http://[]:1"}) {
    EXPECT_EQ(text(bad), "refused") << bad;
  }
}

}  // namespace
}  // namespace sluice::http
