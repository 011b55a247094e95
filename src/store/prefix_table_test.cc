#include "store/prefix_table.h"

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::store {
namespace {

std::string prefix(int n) {
  return "sluice1@tenant:default@model:m" + std::to_string(n);
}

TEST(PrefixTable, OneTextHasOneNumber) {
  std::vector<PrefixEntry> entries(4);
  PrefixTable table(entries);
  const auto a = table.intern(prefix(1));
  const auto b = table.intern(prefix(2));
  ASSERT_TRUE(a && b);
  EXPECT_NE(*a, *b);
  EXPECT_EQ(table.intern(prefix(1)), a);
  EXPECT_EQ(table.in_use(), 2u);
  EXPECT_EQ(prefix_text(entries, *a), prefix(1));
  EXPECT_TRUE(prefix_is(entries, *b, prefix(2)));
  EXPECT_FALSE(prefix_is(entries, *b, prefix(1)));
  EXPECT_EQ(find_prefix(entries, prefix(2)), b);
  EXPECT_FALSE(find_prefix(entries, prefix(3)));
}

TEST(PrefixTable, AnEntryIsReusedOnlyWhenNoSlotCountsOnIt) {
  std::vector<PrefixEntry> entries(2);
  PrefixTable table(entries);
  const auto a = *table.intern(prefix(1));
  ASSERT_EQ(table.intern(prefix(1)), a);
  const auto b = *table.intern(prefix(2));
  EXPECT_FALSE(table.intern(prefix(3)));
  table.release(a);
  EXPECT_FALSE(table.intern(prefix(3))) << "one slot still counts on it";
  table.release(a);
  EXPECT_EQ(prefix_text(entries, a), prefix(1)) << "kept until the entry is needed";
  EXPECT_EQ(table.intern(prefix(3)), a);
  EXPECT_EQ(prefix_text(entries, b), prefix(2));
  table.release(a);
  EXPECT_EQ(table.intern(prefix(1)), a) << "the old text is not found under its old number by luck";
  EXPECT_EQ(prefix_text(entries, a), prefix(1));
}

TEST(PrefixTable, AReleasedTextIsFoundAgainUnderItsNumber) {
  std::vector<PrefixEntry> entries(3);
  PrefixTable table(entries);
  const auto a = *table.intern(prefix(1));
  table.release(a);
  EXPECT_EQ(table.in_use(), 0u);
  EXPECT_NE(table.intern(prefix(2)), a) << "an entry without a text goes first";
  EXPECT_EQ(table.intern(prefix(1)), a);
}

TEST(PrefixTable, TheLongestTextFitsAndALongerOrEmptyOneIsRefused) {
  std::vector<PrefixEntry> entries(1);
  PrefixTable table(entries);
  EXPECT_FALSE(table.intern(""));
  EXPECT_FALSE(table.intern(std::string(kPrefixTextMax + 1, 'x')));
  const std::string longest(kPrefixTextMax, 'x');
  EXPECT_EQ(table.intern(longest), 0u);
  EXPECT_TRUE(prefix_is(entries, 0, longest));
  EXPECT_EQ(prefix_text(entries, 0), longest);
}

TEST(PrefixTable, AShorterTextInAReusedEntryDoesNotShowTheOldOne) {
  std::vector<PrefixEntry> entries(1);
  PrefixTable table(entries);
  table.release(*table.intern("abcdefghijklmnopqrstuvwxyz"));
  ASSERT_EQ(table.intern("ABCDEFGHI"), 0u);
  EXPECT_EQ(prefix_text(entries, 0), "ABCDEFGHI");
  EXPECT_TRUE(prefix_is(entries, 0, "ABCDEFGHI"));
  EXPECT_FALSE(prefix_is(entries, 0, "ABCDEFGHIj"));
  EXPECT_FALSE(prefix_is(entries, 0, "ABCDEFGH"));
}

TEST(PrefixTable, ANewDaemonFindsTheTextsAndCountsTheSlots) {
  std::vector<PrefixEntry> entries(3);
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  {
    PrefixTable before(entries);
    a = *before.intern(prefix(1));
    b = *before.intern(prefix(2));
  }
  PrefixTable after(entries);
  EXPECT_EQ(after.in_use(), 0u);
  EXPECT_TRUE(after.retain(a));
  EXPECT_EQ(after.intern(prefix(1)), a);
  EXPECT_EQ(after.intern(prefix(3)), 2u);
  EXPECT_EQ(after.intern(prefix(4)), b) << "no slot counts on it";
  EXPECT_FALSE(after.intern(prefix(5)));
}

TEST(PrefixTable, GarbageInSharedMemoryIsNoText) {
  std::vector<PrefixEntry> entries(2);
  entries[0].length = kPrefixTextMax + 1;
  entries[1].length = UINT32_MAX;
  for (const std::uint32_t number : {0u, 1u, 2u, UINT32_MAX}) {
    EXPECT_TRUE(prefix_text(entries, number).empty());
    EXPECT_FALSE(prefix_is(entries, number, prefix(1)));
    EXPECT_FALSE(prefix_is(entries, number, ""));
  }
  PrefixTable table(entries);
  EXPECT_FALSE(table.retain(0));
  EXPECT_FALSE(table.retain(2));
  EXPECT_EQ(table.intern(prefix(1)), 0u);
  EXPECT_EQ(table.intern(prefix(2)), 1u);
}

TEST(PrefixTableDeathTest, ReleasingMoreThanWasInternedIsCaught) {
  std::vector<PrefixEntry> entries(2);
  PrefixTable table(entries);
  table.release(*table.intern(prefix(1)));
  EXPECT_DEATH(table.release(0), "bug: CHECK");
  EXPECT_DEATH(table.release(2), "bug: CHECK");
}

TEST(PrefixTable, CountsLikeAMapUnderRandomOperations) {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const std::uint64_t seed = given ? std::stoull(given) : std::random_device{}();
  std::cout << "SLUICE_TEST_SEED=" << seed << "\n";
  std::mt19937_64 random(seed);
  std::vector<PrefixEntry> entries(5);
  PrefixTable table(entries);
  std::map<std::string, std::pair<std::uint32_t, int>> model;  // text -> number, slots
  for (int i = 0; i < 20000; ++i) {
    const auto text = prefix(static_cast<int>(random() % 9));
    const auto known = model.find(text);
    if (random() % 2 == 0) {
      const auto number = table.intern(text);
      ASSERT_EQ(number.has_value(), known != model.end() || model.size() < 5) << i;
      if (!number) continue;
      if (known != model.end()) {
        ASSERT_EQ(*number, known->second.first) << i;
        ++known->second.second;
      } else {
        for (const auto& [other, entry] : model) ASSERT_NE(entry.first, *number) << i;
        model[text] = {*number, 1};
      }
    } else if (known != model.end()) {
      table.release(known->second.first);
      if (--known->second.second == 0) model.erase(known);
    }
    ASSERT_EQ(table.in_use(), model.size());
    for (const auto& [each, entry] : model) {
      ASSERT_EQ(prefix_text(entries, entry.first), each) << i;
    }
  }
}

// A reader without a lease looks while the entry changes from one text to another of its length:
// the answer is a hint, but what was in neither text is never seen.
TEST(PrefixTable, ReadersMayLookWhileAnEntryIsRewritten) {
  std::vector<PrefixEntry> entries(1);
  PrefixTable table(entries);
  const std::string a(200, 'a');
  const std::string b(200, 'b');
  const std::string neither = a.substr(0, 96) + "c" + b.substr(0, 103);
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> looks = 0;
  std::atomic<std::uint64_t> wrong = 0;
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      if (prefix_is(entries, 0, neither) || find_prefix(entries, neither)) wrong.fetch_add(1);
      if (prefix_is(entries, 0, a)) looks.fetch_add(1);
    }
  });
  for (int i = 0; i < 20000 || looks == 0; ++i) table.release(*table.intern(i % 2 == 0 ? a : b));
  stop = true;
  reader.join();
  EXPECT_EQ(wrong.load(), 0u);
}

}  // namespace
}  // namespace sluice::store
