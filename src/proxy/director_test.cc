#include "proxy/director.h"

#include <thread>

#include <gtest/gtest.h>

#include "proxy/registration.h"

namespace sluice::proxy {
namespace {

DirectorOptions options(std::uint32_t running_max, std::uint32_t queue_max) {
  DirectorOptions out;
  for (std::size_t i = 0; i < kRoles.size(); ++i) {
    out.pools[i] = {
        .role = std::string(kRoles[i].name), .running_max = running_max, .queue_max = queue_max};
  }
  return out;
}

InstanceSpec decode(std::uint16_t port) {
  return {.role = kDecodeRole, .endpoint = {.host = "127.0.0.1", .port = port}};
}

TEST(Director, RegisteringTwiceIsOneInstance) {
  Director director(options(1, 1));
  const auto first = director.add(decode(1));
  const auto again = director.add(decode(1));
  const auto other = director.add(decode(2));
  ASSERT_TRUE(first && again && other);
  EXPECT_EQ(*first, *again);
  EXPECT_NE(*first, *other);
  EXPECT_EQ(director.list().size(), 2u);
  EXPECT_EQ(director.find(kDecodeRole, decode(2).endpoint), *other);
  EXPECT_EQ(director.find(kPrefillRole, decode(2).endpoint), std::nullopt);
}

TEST(Director, APlaceIsGivenBackOnceAndTheNextOneIsCalled) {
  Director director(options(1, 8));
  ASSERT_TRUE(director.add(decode(1)));
  auto asked = director.ask(kDecodeRole, {}, kFarFuture, [](const Place&) {});
  ASSERT_TRUE(asked.place);
  Running running(&director, std::get<std::shared_ptr<const Instance>>(*asked.place), now());
  int called = 0;
  const auto waits = director.ask(kDecodeRole, {}, kFarFuture, [&](const Place& place) {
    ++called;
    EXPECT_TRUE(std::holds_alternative<std::shared_ptr<const Instance>>(place));
  });
  EXPECT_FALSE(waits.place);
  Running moved = std::move(running);
  running.leave();  // holds nothing any more
  EXPECT_EQ(called, 0);
  moved.leave();
  moved.leave();
  EXPECT_EQ(called, 1);
  EXPECT_EQ(director.pool(kDecodeRole).running, 1u);
}

TEST(Director, ACancelledWaiterIsNotCalled) {
  Director director(options(1, 8));
  ASSERT_TRUE(director.add(decode(1)));
  auto asked = director.ask(kDecodeRole, {}, kFarFuture, [](const Place&) {});
  {
    const Running running(&director, std::get<std::shared_ptr<const Instance>>(*asked.place),
                          now());
    const auto waits =
        director.ask(kDecodeRole, {}, kFarFuture, [](const Place&) { FAIL() << "it had left"; });
    EXPECT_TRUE(director.cancel(kDecodeRole, waits.ticket));
    EXPECT_FALSE(director.cancel(kDecodeRole, waits.ticket));
  }
  EXPECT_EQ(director.pool(kDecodeRole).running, 0u);
}

TEST(Director, BadSignsEvictAndWaitersAreTold) {
  DirectorOptions with_log = options(1, 8);
  std::string changes;
  with_log.changed = [&](const Instance&, bool usable) { changes += usable ? "+" : "-"; };
  Director director(std::move(with_log));
  const auto id = director.add(decode(1));
  auto asked = director.ask(kDecodeRole, {}, kFarFuture, [](const Place&) {});
  const Running running(&director, std::get<std::shared_ptr<const Instance>>(*asked.place), now());
  bool refused = false;
  std::ignore = director.ask(kDecodeRole, {}, kFarFuture, [&](const Place& place) {
    refused = std::holds_alternative<sched::Refusal>(place);
  });
  for (int i = 0; i < 3; ++i) director.report(*id, sched::HealthEvent::kProbeBad);
  EXPECT_TRUE(refused);
  EXPECT_FALSE(director.usable(kDecodeRole));
  EXPECT_TRUE(director.known(kDecodeRole));
  for (int i = 0; i < 2; ++i) director.report(*id, sched::HealthEvent::kProbeGood);
  EXPECT_TRUE(director.usable(kDecodeRole));
  EXPECT_EQ(changes, "-+");
}

TEST(Director, AnInstanceMayLeaveWhileARequestRunsOnIt) {
  Director director(options(1, 8));
  const auto id = director.add(decode(1));
  auto asked = director.ask(kDecodeRole, {}, kFarFuture, [](const Place&) {});
  Running running(&director, std::get<std::shared_ptr<const Instance>>(*asked.place), now());
  EXPECT_TRUE(director.remove(*id));
  EXPECT_FALSE(director.remove(*id));
  EXPECT_EQ(director.list().size(), 0u);
  EXPECT_EQ(running.instance()->spec.endpoint.port, 1);
  running.leave();
  EXPECT_FALSE(director.known(kDecodeRole));
}

TEST(Director, ThreadsNeverHoldMoreThanTheLimit) {
  Director director(options(2, 64));
  ASSERT_TRUE(director.add(decode(1)));
  std::atomic<int> held = 0, most = 0, served = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 2000; ++n) {
          auto asked = director.ask(kDecodeRole, {}, kFarFuture, [](const Place&) {});
          if (!asked.place) {
            // Called meanwhile or not: a place that nobody takes must be given back.
            if (!director.cancel(kDecodeRole, asked.ticket)) ++served;
            continue;
          }
          const auto* instance = std::get_if<std::shared_ptr<const Instance>>(&*asked.place);
          ASSERT_NE(instance, nullptr);
          const Running running(&director, *instance, now());
          const int here = ++held;
          int seen = most;
          while (here > seen && !most.compare_exchange_weak(seen, here)) {
          }
          --held;
        }
      });
    }
    // A waiter that was called holds a place for good here, so at most two can be lost that way.
  }
  EXPECT_LE(most, 2);
  EXPECT_LE(director.pool(kDecodeRole).running, 2u);
  EXPECT_EQ(director.pool(kDecodeRole).running, static_cast<std::uint32_t>(served));
}

TEST(Registration, NeedsRoleAndAddressAndTakesNothingUnknown) {
  const auto param = [](std::string_view text) {
    const auto spec = parse_registration(text, false);
    return spec ? std::string("accepted") : spec.error().param + "!";
  };
  EXPECT_EQ(param(R"({"role":"decode","url":"http://127.0.0.1:8000"})"), "accepted");
  EXPECT_EQ(
      param(
          R"({"role":"decode","url":"http://[::1]:8000","arena":"a","running_max":4,"keep_alive_ms":0})"),
      "accepted");
  EXPECT_EQ(param(R"({"url":"http://127.0.0.1:8000"})"), "role!");
  EXPECT_EQ(param(R"({"role":"decode"})"), "url!");
  EXPECT_EQ(param(R"({"role":"chef","url":"http://127.0.0.1:8000"})"), "role!");
  EXPECT_EQ(param(R"({"role":"decode","url":"ftp://127.0.0.1"})"), "url!");
  EXPECT_EQ(param(R"({"role":"decode","url":"http://192.0.2.1:8000"})"), "url!");
  EXPECT_EQ(param(R"({"role":"decode","url":"http://127.0.0.1:1","running_max":0})"),
            "running_max!");
  EXPECT_EQ(param(R"({"role":"decode","url":"http://127.0.0.1:1","running_max":-1})"),
            "running_max!");
  EXPECT_EQ(param(R"({"role":"decode","url":"http://127.0.0.1:1","colour":"red"})"), "colour!");
  EXPECT_EQ(param("[]"), "!");
  EXPECT_EQ(param(std::string(10'000, '[')), "!");
  EXPECT_TRUE(parse_registration(R"({"role":"decode","url":"http://192.0.2.1:8000"})", true));
}

TEST(Instance, ConnectionsIdleClearlyLessThanTheEngineKeepsThem) {
  using std::chrono::milliseconds;
  EXPECT_EQ(reuse_time(milliseconds(5000)), milliseconds(4000));
  EXPECT_EQ(reuse_time(milliseconds(1000)), milliseconds(750));
  EXPECT_EQ(reuse_time(milliseconds(250)), milliseconds(0));
  EXPECT_EQ(reuse_time(milliseconds(0)), milliseconds(0));
}

}  // namespace
}  // namespace sluice::proxy
