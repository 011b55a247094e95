#include "sched/admission.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace sluice::sched {
namespace {

constexpr Instant kSecond = 1'000'000'000;

Pool pool(std::uint32_t running_max, std::uint32_t queue_max) {
  return Pool({.role = "decode", .running_max = running_max, .queue_max = queue_max});
}

RefusalCause cause(const Verdict& verdict) {
  return std::get<Refusal>(verdict).cause;
}

TEST(Admission, WithoutAnInstanceARequestIsRefusedAtOnce) {
  Pool decode = pool(1, 8);
  EXPECT_EQ(cause(decode.ask(1, {}, 1, kFarFuture)), RefusalCause::kNoInstance);
  decode.add(7, {}, false);
  EXPECT_EQ(cause(decode.ask(1, {}, 1, kFarFuture)), RefusalCause::kUnhealthy);
}

TEST(Admission, TheQueueIsBoundedAndFirstInFirstOut) {
  Pool decode = pool(1, 2);
  decode.add(7, {}, true);
  EXPECT_TRUE(std::holds_alternative<Granted>(decode.ask(1, {}, 1, kFarFuture)));
  EXPECT_TRUE(std::holds_alternative<Queued>(decode.ask(2, {}, 1, kFarFuture)));
  EXPECT_TRUE(std::holds_alternative<Queued>(decode.ask(3, {}, 1, kFarFuture)));
  EXPECT_EQ(cause(decode.ask(4, {}, 1, kFarFuture)), RefusalCause::kQueueFull);
  const auto called = decode.leave(7, kSecond, 2);
  ASSERT_EQ(called.size(), 1u);
  EXPECT_EQ(called[0].ticket, 2u);
  EXPECT_EQ(decode.waiting(), 1u);
}

TEST(Admission, WhoCannotStartBeforeItsDeadlineIsRefusedAtOnce) {
  Pool decode = pool(1, 8);
  decode.add(7, {}, true);
  std::ignore = decode.ask(1, {}, 1, kFarFuture);
  std::ignore = decode.leave(7, 10 * kSecond, 2);
  std::ignore = decode.ask(2, {}, 3, kFarFuture);
  const Verdict verdict = decode.ask(3, {}, 3, 3 + kSecond);
  EXPECT_EQ(cause(verdict), RefusalCause::kDeadline);
  EXPECT_EQ(std::get<Refusal>(verdict).retry_after_s, 10u);
  EXPECT_TRUE(std::holds_alternative<Queued>(decode.ask(4, {}, 3, 3 + 11 * kSecond)));
}

TEST(Admission, WaitersAreAnsweredWhenTheLastUsableInstanceGoes) {
  Pool decode = pool(1, 8);
  decode.add(7, {}, true);
  std::ignore = decode.ask(1, {}, 1, kFarFuture);
  std::ignore = decode.ask(2, {}, 1, kFarFuture);
  const auto called = decode.set_usable(7, false, 2);
  ASSERT_EQ(called.size(), 1u);
  EXPECT_EQ(std::get<Refusal>(called[0].verdict).cause, RefusalCause::kUnhealthy);
}

TEST(Admission, ARemovedInstanceFinishesWhatItHas) {
  Pool decode = pool(2, 8);
  decode.add(7, {}, true);
  std::ignore = decode.ask(1, {}, 1, kFarFuture);
  EXPECT_TRUE(decode.remove(7, 2).empty());
  EXPECT_EQ(decode.instances(), 0u);
  EXPECT_EQ(decode.running(7), 1u);
  std::ignore = decode.leave(7, {}, 3);
  EXPECT_EQ(decode.running(7), 0u);
  decode.add(7, {}, true);  // its number may come back
  EXPECT_EQ(decode.instances(), 1u);
}

TEST(Admission, AnExpiredWaiterIsToldSoAndTheNextOneRuns) {
  Pool decode = pool(1, 8);
  decode.add(7, {}, true);
  std::ignore = decode.ask(1, {}, 1, kFarFuture);
  std::ignore = decode.ask(2, {}, 1, 5);
  std::ignore = decode.ask(3, {}, 1, kFarFuture);
  const auto called = decode.leave(7, {}, 6);
  ASSERT_EQ(called.size(), 2u);
  EXPECT_EQ(std::get<Refusal>(called[0].verdict).cause, RefusalCause::kDeadline);
  EXPECT_EQ(called[1].ticket, 3u);
  EXPECT_TRUE(std::holds_alternative<Granted>(called[1].verdict));
}

// Random histories: no instance above its limit, nobody lost, nobody answered twice.
TEST(Admission, EveryTicketIsAnsweredOnceWhateverHappens) {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  std::printf("SLUICE_TEST_SEED=%u\n", seed);
  std::mt19937 random(seed);
  Pool decode = pool(3, 5);
  std::set<InstanceId> present;
  std::multimap<InstanceId, Ticket> running;
  std::set<Ticket> waiting;
  Ticket next = 1;
  Instant now = 1;
  const auto take = [&](const std::vector<Called>& called) {
    for (const Called& each : called) {
      ASSERT_EQ(waiting.erase(each.ticket), 1u);
      if (const auto* granted = std::get_if<Granted>(&each.verdict)) {
        running.emplace(granted->instance, each.ticket);
      }
    }
  };
  for (int i = 0; i < 20'000; ++i) {
    now += random() % 1000;
    const InstanceId id = random() % 4;
    switch (random() % 6) {
      case 0:
        if (!present.contains(id) && running.count(id) == 0) {
          decode.add(id, {}, true);
          present.insert(id);
        }
        break;
      case 1:
        if (random() % 8 == 0) {
          take(decode.remove(id, now));
          present.erase(id);
        } else {
          take(decode.set_usable(id, random() % 4 != 0, now));
        }
        break;
      case 2:
        if (!running.empty()) {
          const InstanceId done = running.begin()->first;
          running.erase(running.begin());
          take(decode.leave(done, random() % 1000, now));
        }
        break;
      case 3:
        if (!waiting.empty()) {
          const Ticket gone = *waiting.begin();
          ASSERT_TRUE(decode.cancel(gone));
          waiting.erase(gone);
        }
        break;
      default: {
        const Ticket ticket = next++;
        const Verdict verdict = decode.ask(ticket, {}, now, now + random() % 5000);
        if (const auto* granted = std::get_if<Granted>(&verdict)) {
          running.emplace(granted->instance, ticket);
        } else if (std::holds_alternative<Queued>(verdict)) {
          waiting.insert(ticket);
        }
      }
    }
    ASSERT_EQ(decode.waiting(), waiting.size());
    ASSERT_LE(waiting.size(), 5u);
    for (InstanceId each = 0; each < 4; ++each) {
      ASSERT_EQ(decode.running(each), running.count(each));
      ASSERT_LE(running.count(each), 3u);
    }
  }
}

}  // namespace
}  // namespace sluice::sched
