#include "kv/handoff.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::kv {
namespace {

using enum Event;
using enum Phase;

constexpr std::array kEvents{kWrite, kPublished, kFinish, Event::kCommitDone,
                             kFail,  kCancel,    kRelease};
constexpr std::uint32_t kNow = 3;  // the generation of the states below

// Every state there is, but for how many parts were published.
constexpr std::array<Handoff, 7> kStates{{
    {.phase = kPrepared, .generation = kNow},
    {.phase = kWriting, .generation = kNow, .published = 1},
    {.phase = kWriting, .generation = kNow, .published = 1, .writing_part = true},
    {.phase = kCommitting, .generation = kNow, .published = 1},
    {.phase = kCommitted, .generation = kNow, .published = 1},
    {.phase = kRolledBack, .generation = kNow},
    {.phase = kReleased, .generation = kNow},
}};

// A step as text: next phase, effects, or "-" when it is refused.
std::string text(const Handoff& state, const Step& step) {
  if (!step.accepted) {
    EXPECT_EQ(step.next, state);
    EXPECT_FALSE(step.publish_commit || step.remove);
    return "-";
  }
  std::string out(name(step.next.phase));
  if (step.next.generation != state.generation) out += ":" + std::to_string(step.next.generation);
  if (step.next.writing_part) out += " part";
  if (step.publish_commit) out += " commit";
  if (step.remove) out += " remove:" + std::to_string(step.remove_generation);
  return out;
}

using Columns = std::array<const char*, 7>;  // in the order of kStates
constexpr Columns kNone{"-", "-", "-", "-", "-", "-", "-"};

// What an event does when it speaks of an earlier generation, of this one, of a later one.
struct Row {
  Event event;
  Columns earlier, now, later;
};

constexpr Columns kCancelled{"released",
                             "released remove:3",
                             "released remove:3",
                             "released remove:3",
                             "released remove:3",
                             "released",
                             "-"};
constexpr Columns kLetGo{"released",
                         "released remove:3",
                         "released remove:3",
                         "released remove:3",
                         "released",
                         "released",
                         "-"};

constexpr std::array<Row, 7> kTable{{
    {kWrite,
     kNone,
     {"writing part", "writing part", "-", "-", "-", "-", "-"},
     {"writing:4 part", "writing:4 part remove:3", "writing:4 part remove:3",
      "writing:4 part remove:3", "writing:4 part remove:3", "writing:4 part", "-"}},
    {kPublished, kNone, {"-", "-", "writing", "-", "-", "-", "-"}, kNone},
    {kFinish, kNone, {"-", "committing commit", "-", "-", "-", "-", "-"}, kNone},
    {Event::kCommitDone, kNone, {"-", "-", "-", "committed", "-", "-", "-"}, kNone},
    {kFail,
     kNone,
     {"rolled_back", "rolled_back remove:3", "rolled_back remove:3", "rolled_back remove:3", "-",
      "-", "-"},
     {"rolled_back:4", "-", "-", "-", "-", "-", "-"}},
    {kCancel, kCancelled, kCancelled, kCancelled},
    {kRelease, kLetGo, kLetGo, kLetGo},
}};

TEST(Handoff, EveryEventInEveryStateDoesWhatTheTableSays) {
  ASSERT_EQ(kTable.size(), kEvents.size());
  for (const Row& row : kTable) {
    for (std::size_t i = 0; i < kStates.size(); ++i) {
      const Handoff& state = kStates[i];
      const std::string where = std::string(name(row.event)) + " in " +
                                std::string(name(state.phase)) +
                                (state.writing_part ? " a part" : "");
      EXPECT_EQ(text(state, advance(state, row.event, kNow - 1)), row.earlier[i]) << where;
      EXPECT_EQ(text(state, advance(state, row.event, kNow)), row.now[i]) << where;
      EXPECT_EQ(text(state, advance(state, row.event, kNow + 1)), row.later[i]) << where;
    }
  }
}

// So the table leaves none out.
TEST(Handoff, NoOtherStateCanBeReached) {
  const auto known = [](const Handoff& state) {
    return std::ranges::any_of(kStates, [&](const Handoff& one) {
      return one.phase == state.phase && one.writing_part == state.writing_part;
    });
  };
  const auto order = [](const Handoff& a, const Handoff& b) {
    return std::tie(a.phase, a.generation, a.published, a.writing_part) <
           std::tie(b.phase, b.generation, b.published, b.writing_part);
  };
  std::set<Handoff, decltype(order)> seen{Handoff{}};
  std::vector<Handoff> open{Handoff{}};
  while (!open.empty()) {
    const Handoff state = open.back();
    open.pop_back();
    EXPECT_TRUE(known(state)) << name(state.phase);
    EXPECT_TRUE(state.phase != kWriting || state.writing_part || state.published > 0)
        << "a generation begins with a part";
    if (state.published > 3) continue;
    for (const Event event : kEvents) {
      for (std::uint32_t generation = 0; generation < 3; ++generation) {
        const Handoff next = advance(state, event, generation).next;
        if (seen.insert(next).second) open.push_back(next);
      }
    }
  }
  EXPECT_GT(seen.size(), kStates.size());
}

TEST(Handoff, PartsAreCountedAndACommitStandsForAllOfThem) {
  Handoff state;
  for (std::uint32_t part = 1; part <= 3; ++part) {
    state = advance(state, kWrite, kNow).next;
    state = advance(state, kPublished, kNow).next;
    EXPECT_EQ(state.published, part);
  }
  const Step finish = advance(state, kFinish, kNow);
  EXPECT_TRUE(finish.publish_commit);
  EXPECT_EQ(finish.next.published, 3u);
  EXPECT_EQ(advance(finish.next, kWrite, kNow + 1).next.published, 0u) << "a new generation";
}

TEST(Handoff, ACommitStandsForAtLeastOnePart) {
  const Handoff none{.phase = kWriting, .generation = kNow};
  EXPECT_EQ(text(none, advance(none, kFinish, kNow)), "-");
}

// What an arena would hold, driven by any events in any order.
TEST(Handoff, RandomEventsLeaveNothingBehindAndCommitOnlyWhatIsWhole) {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device{}();
  std::cout << "SLUICE_TEST_SEED=" << seed << "\n";
  std::mt19937_64 random(seed);
  for (int run = 0; run < 2000; ++run) {
    Handoff state;
    std::set<std::uint32_t> holding;  // generations with something in the arena
    std::set<std::uint32_t> commits;  // asked for, ever
    std::uint32_t parts = 0;
    for (int i = 0; i < 60; ++i) {
      const Event event = kEvents[random() % kEvents.size()];
      const auto generation = static_cast<std::uint32_t>(random() % 4);
      const Step step = advance(state, event, generation);
      EXPECT_GE(step.next.generation, state.generation);
      if (step.remove) {
        EXPECT_TRUE(holding.erase(step.remove_generation)) << "removed twice, or never written";
      }
      if (step.accepted && event == kWrite) {
        if (step.next.generation != state.generation || state.phase != kWriting) parts = 0;
        holding.insert(generation);
      }
      if (step.accepted && event == kPublished) ++parts;
      if (step.publish_commit) {
        EXPECT_TRUE(commits.insert(generation).second);
        EXPECT_EQ(step.next.published, parts);
        EXPECT_FALSE(state.writing_part);
      }
      state = step.next;
      const bool alive =
          state.phase == kWriting || state.phase == kCommitting || state.phase == kCommitted;
      if (alive) {
        EXPECT_EQ(holding, std::set{state.generation});
      } else if (state.phase == kRolledBack) {
        EXPECT_TRUE(holding.empty());
      }
    }
    if (state.phase == kReleased) continue;  // a committed one is its reader's
    const Step last = advance(state, kCancel, state.generation);
    if (last.remove) holding.erase(last.remove_generation);
    EXPECT_TRUE(holding.empty());
  }
}

}  // namespace
}  // namespace sluice::kv
