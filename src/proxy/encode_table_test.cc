#include "proxy/encode_table.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::proxy {
namespace {

using Shared = std::shared_ptr<const EncodeResult>;

EncodeResult item(std::string identifier) {
  return EncodedItem{.identifier = std::move(identifier)};
}

TEST(EncodeTable, OneEncodeServesAllWaitersOnce) {
  EncodeTable table;
  std::vector<std::string> got;
  const auto waiter = [&](const Shared& result) { got.push_back((*result)->identifier); };
  const auto first = table.join("k", waiter);
  const auto second = table.join("k", waiter);
  EXPECT_TRUE(first.first);
  EXPECT_FALSE(second.first);
  EXPECT_EQ(first.job, second.job);
  table.finish("k", first.job, item("id"));
  table.finish("k", first.job, item("other"));
  EXPECT_EQ(got, (std::vector<std::string>{"id", "id"}));
  EXPECT_EQ(table.size(), 0u);
}

TEST(EncodeTable, AFailureReachesAllWaiters) {
  EncodeTable table;
  int failures = 0;
  const auto waiter = [&](const Shared& result) { failures += result->has_value() ? 0 : 1; };
  const auto first = table.join("k", waiter);
  std::ignore = table.join("k", waiter);
  table.finish("k", first.job, std::unexpected(EncodeFailure{}));
  EXPECT_EQ(failures, 2);
}

TEST(EncodeTable, ItIsCancelledOnlyWhenNobodyWaits) {
  EncodeTable table;
  int cancelled = 0;
  const auto ignore = [](const Shared&) {};
  const auto first = table.join("k", ignore);
  table.set_cancel("k", first.job, [&] { ++cancelled; });
  const auto second = table.join("k", ignore);
  table.leave("k", first.number);
  EXPECT_EQ(cancelled, 0);
  table.leave("k", second.number);
  EXPECT_EQ(cancelled, 1);
  table.leave("k", second.number);
  EXPECT_EQ(cancelled, 1);
}

TEST(EncodeTable, ACancelledEncodeDoesNotEndTheNextOne) {
  EncodeTable table;
  int answers = 0;
  const auto old = table.join("k", [](const Shared&) { FAIL() << "nobody waits for it"; });
  table.leave("k", old.number);
  const auto fresh = table.join("k", [&](const Shared&) { ++answers; });
  EXPECT_TRUE(fresh.first);
  table.finish("k", old.job, std::unexpected(EncodeFailure{}));
  EXPECT_EQ(answers, 0);
  // The old one's way to stop comes late and stops the old one.
  int cancelled = 0;
  table.set_cancel("k", old.job, [&] { ++cancelled; });
  EXPECT_EQ(cancelled, 1);
  table.finish("k", fresh.job, item("id"));
  EXPECT_EQ(answers, 1);
}

TEST(EncodeTable, ThreadsThatJoinAndLeaveAreEachAnsweredOnceOrHaveLeft) {
  EncodeTable table;
  std::atomic<int> answers = 0, left = 0, begun = 0;
  constexpr int kEach = 2000;
  const auto work = [&] {
    for (int i = 0; i < kEach; ++i) {
      const std::string key = std::to_string(i % 7);
      const auto answered = std::make_shared<std::atomic<int>>(0);
      const auto place = table.join(key, [&answers, answered](const Shared&) {
        ++answers;
        ++*answered;
      });
      if (place.first) {
        ++begun;
        table.finish(key, place.job, item("id"));
      } else if (i % 3 == 0) {
        table.leave(key, place.number);
      }
      // Whoever did not leave is answered by the thread that began the encode.
      while (i % 3 != 0 && *answered == 0) std::this_thread::yield();
      EXPECT_LE(*answered, 1);
      if (*answered == 0) ++left;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  }
  EXPECT_EQ(table.size(), 0u);
  EXPECT_GE(answers + left, 4 * kEach);
  EXPECT_GT(begun, 0);
}

}  // namespace
}  // namespace sluice::proxy
