// Deadlines and cancellation of requests to engines, in each phase of a request.
#include <string>

#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

#include "http/front_fixture.h"
#include "http/test_pace.h"
#include "http/upstream.h"
#include "http/upstream_fixture.h"

namespace sluice::http {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

// An engine that stops doing anything at some point and notices when it is left.
class StallingEngine {
 public:
  enum class At { kConnect, kWrite, kHeader, kBody };

  explicit StallingEngine(At at)
      : at_(at), engine_([at](EngineSide& side) {
          if (at == At::kWrite) {
            side.read_head();
            // Reads nothing more until the other side has given up, which ends the peek.
            return side.wait_for_reset();
          }
          side.read_request();
          if (at == At::kBody) {
            side.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart");
          }
          side.wait_for_close();
        }) {
    if (at != At::kConnect) return;
    // A listener whose queue is full lets a connect wait.
    full_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(full_.get(), any, size), 0);
    EXPECT_EQ(::listen(full_.get(), 0), 0);
    EXPECT_EQ(::getsockname(full_.get(), any, &size), 0);
    full_port_ = ntohs(address.sin_port);
    for (int i = 0; i < 4; ++i) {
      queued_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      static_cast<void>(::connect(queued_.back().get(), any, size));
    }
  }

  std::uint16_t port() const noexcept { return at_ == At::kConnect ? full_port_ : engine_.port(); }
  // Its connections were closed by the other side.
  bool left() { return at_ == At::kConnect || (engine_.connections() == engine_.closed()); }

 private:
  At at_;
  ScriptedEngine engine_;
  UniqueFd full_;
  std::uint16_t full_port_ = 0;
  std::vector<UniqueFd> queued_;
};

class UpstreamStop : public ::testing::TestWithParam<StallingEngine::At> {};

std::string phase(const ::testing::TestParamInfo<StallingEngine::At>& info) {
  static constexpr const char* kNames[] = {"Connect", "Write", "Header", "Body"};
  return kNames[static_cast<int>(info.param)];
}

TEST_P(UpstreamStop, StopEndsARequestAtOnceAndTheEngineSeesIt) {
  StallingEngine engine(GetParam());
  const std::string large(30 << 20, 'x');
  with_upstream(options_to(engine.port()), [&](Upstream& upstream) -> asio::awaitable<void> {
    StopSource stop;
    asio::steady_timer timer(co_await asio::this_coro::executor, 150ms);
    Steady::time_point stopped;
    timer.async_wait([&](const auto&) {
      stopped = Steady::now();
      stop.stop();
    });
    const std::string_view body[] = {large};
    const auto request = GetParam() == StallingEngine::At::kWrite ? post("/", body) : get("/");
    const auto out = co_await fetch(upstream, request, &stop);
    EXPECT_FALSE(out.whole);
    EXPECT_EQ(out.code, Code::kUnavailable);
    EXPECT_TRUE(stop.stopped());
    EXPECT_LT(Steady::now() - stopped, 50ms * kPace);
    EXPECT_EQ(upstream.counts().idle, 0u);
    EXPECT_EQ(upstream.counts().retries, 0u);
  });
  EXPECT_TRUE(eventually([&] { return engine.left(); }, 5s));
}

TEST_P(UpstreamStop, TheDeadlineEndsARequest) {
  StallingEngine engine(GetParam());
  const std::string large(30 << 20, 'x');
  with_upstream(options_to(engine.port()), [&](Upstream& upstream) -> asio::awaitable<void> {
    const std::string_view body[] = {large};
    auto request = GetParam() == StallingEngine::At::kWrite ? post("/", body) : get("/");
    const auto start = Steady::now();
    request.deadline = start + 200ms;
    const auto out = co_await fetch(upstream, request);
    EXPECT_FALSE(out.whole);
    EXPECT_EQ(out.code, Code::kTimedOut);
    EXPECT_GE(Steady::now() - start, 200ms);
    EXPECT_LT(Steady::now() - start, 200ms + 200ms * kPace);
  });
  EXPECT_TRUE(eventually([&] { return engine.left(); }, 5s));
}

INSTANTIATE_TEST_SUITE_P(At, UpstreamStop,
                         ::testing::Values(StallingEngine::At::kConnect, StallingEngine::At::kWrite,
                                           StallingEngine::At::kHeader, StallingEngine::At::kBody),
                         phase);

TEST(Upstream, AnEngineThatTakesNoConnectionIsUnavailableBeforeTheDeadline) {
  StallingEngine engine(StallingEngine::At::kConnect);
  auto options = options_to(engine.port());
  options.connect_timeout = 150ms;
  with_upstream(options, [&](Upstream& upstream) -> asio::awaitable<void> {
    const auto start = Steady::now();
    const auto request = get("/");
    const auto out = co_await fetch(upstream, request);
    EXPECT_EQ(out.code, Code::kUnavailable);
    EXPECT_LT(Steady::now() - start, 500ms * kPace);
  });
}

TEST(Upstream, CancelEndsAReadThatWaits) {
  StallingEngine engine(StallingEngine::At::kBody);
  with_upstream(options_to(engine.port()), [&](Upstream& upstream) -> asio::awaitable<void> {
    const auto request = get("/");
    auto call = co_await upstream.send(request, nullptr);
    EXPECT_TRUE(call.has_value());
    if (!call) co_return;
    const auto first = co_await (*call)->read();
    EXPECT_EQ(first.value_or("failed"), "part");
    asio::steady_timer timer(co_await asio::this_coro::executor, 50ms);
    timer.async_wait([&](const auto&) { (*call)->cancel(); });
    const auto rest = co_await (*call)->read();
    EXPECT_EQ(rest.error().code, Code::kUnavailable);
    const auto again = co_await (*call)->read();
    EXPECT_FALSE(again.has_value());
  });
}

TEST(Upstream, ACallDroppedInTheMiddleClosesItsConnection) {
  StallingEngine engine(StallingEngine::At::kBody);
  with_upstream(options_to(engine.port()), [&](Upstream& upstream) -> asio::awaitable<void> {
    const auto request = get("/");
    auto call = co_await upstream.send(request, nullptr);
    EXPECT_TRUE(call.has_value());
    if (!call) co_return;
    static_cast<void>(co_await (*call)->read());
    call->reset();
    EXPECT_EQ(upstream.counts().idle, 0u);
  });
  EXPECT_TRUE(eventually([&] { return engine.left(); }, 5s));
}

TEST(Upstream, AStoppedSourceOrAPassedDeadlineSendsNothing) {
  TestFront engine;
  with_upstream(options_to(engine.port()), [&](Upstream& upstream) -> asio::awaitable<void> {
    StopSource stop;
    stop.stop();
    const auto request = get("/");
    const auto stopped = co_await fetch(upstream, request, &stop);
    EXPECT_EQ(stopped.code, Code::kUnavailable);
    const auto late = get("/", -1ms);
    const auto passed = co_await fetch(upstream, late);
    EXPECT_EQ(passed.code, Code::kTimedOut);
  });
  EXPECT_EQ(engine.requests(), 0u);
}

TEST(StopSource, RunsEachCallbackOnceAndLaterOnesAtOnce) {
  StopSource stop;
  int first = 0;
  int second = 0;
  int third = 0;
  stop.add([&] { ++first; });
  const auto removed = stop.add([&] { ++second; });
  stop.remove(removed);
  stop.stop();
  stop.stop();
  stop.add([&] { ++third; });
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
  EXPECT_EQ(third, 1);
}

TEST(StopSource, ACallbackMayRemoveAnotherAndAGuardMayOutliveItsSource) {
  StopGuard outlives;
  int called = 0;
  {
    StopSource stop;
    auto guard = std::make_unique<StopGuard>(stop, [&] { ++called; });
    outlives = StopGuard(stop, [&] { guard.reset(); });  // runs first, being the last one added
    stop.stop();
  }
  EXPECT_EQ(called, 0);
  outlives.release();
}

}  // namespace
}  // namespace sluice::http
