#include "kv/handoff.h"

#include <array>
#include <cstdlib>
#include <iostream>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace sluice::kv {
namespace {

using enum Event;
using enum Phase;

constexpr std::array kPhases{kPrepared, kWriting, kCommitting, kCommitted, kRolledBack, kReleased};
constexpr std::array kEvents{kWrite, kPublished, kFinish, Event::kCommitDone,
                             kFail,  kCancel,    kRelease};
constexpr std::uint32_t kNow = 3;  // the generation of the states below

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

struct Row {
  Event event;
  std::array<const char*, 6> of_this;  // in the order of kPhases; the event is of generation 3
  std::array<const char*, 6> later;    // of generation 4
};

// Between parts, one published.
constexpr std::array<Row, 7> kTable{{
    {kWrite,
     {"writing part", "writing part", "-", "-", "-", "-"},
     {"writing:4 part", "writing:4 part remove:3", "writing:4 part remove:3",
      "writing:4 part remove:3", "writing:4 part", "-"}},
    {kPublished, {"-", "-", "-", "-", "-", "-"}, {"-", "-", "-", "-", "-", "-"}},
    {kFinish, {"-", "committing commit", "-", "-", "-", "-"}, {"-", "-", "-", "-", "-", "-"}},
    {Event::kCommitDone, {"-", "-", "committed", "-", "-", "-"}, {"-", "-", "-", "-", "-", "-"}},
    {kFail,
     {"rolled_back", "rolled_back remove:3", "rolled_back remove:3", "-", "-", "-"},
     {"rolled_back:4", "-", "-", "-", "-", "-"}},
    {kCancel,
     {"released", "released remove:3", "released remove:3", "released remove:3", "released", "-"},
     {"released", "released remove:3", "released remove:3", "released remove:3", "released", "-"}},
    {kRelease,
     {"released", "released remove:3", "released remove:3", "released", "released", "-"},
     {"released", "released remove:3", "released remove:3", "released", "released", "-"}},
}};

Handoff between_parts(Phase phase) {
  const bool counts = phase != kPrepared && phase != kRolledBack && phase != kReleased;
  return {.phase = phase, .generation = kNow, .published = counts ? 1u : 0u};
}

TEST(Handoff, EveryEventInEveryStateDoesWhatTheTableSays) {
  ASSERT_EQ(kTable.size(), kEvents.size());
  for (const Row& row : kTable) {
    for (std::size_t i = 0; i < kPhases.size(); ++i) {
      const Handoff state = between_parts(kPhases[i]);
      const std::string where =
          std::string(name(row.event)) + " in " + std::string(name(state.phase));
      EXPECT_EQ(text(state, advance(state, row.event, kNow)), row.of_this[i]) << where;
      EXPECT_EQ(text(state, advance(state, row.event, kNow + 1)), row.later[i])
          << where << ", later";
    }
  }
}

TEST(Handoff, EventsOfAnEarlierGenerationChangeNothing) {
  for (const Event event : {kWrite, kPublished, kFinish, Event::kCommitDone, kFail}) {
    for (const Phase phase : kPhases) {
      const Handoff state = between_parts(phase);
      EXPECT_EQ(text(state, advance(state, event, kNow - 1)), "-") << name(event) << name(phase);
    }
  }
}

TEST(Handoff, APartBegunMustBePublishedOrFailBeforeAnythingElse) {
  const Handoff writing{
      .phase = kWriting, .generation = kNow, .published = 1, .writing_part = true};
  EXPECT_EQ(text(writing, advance(writing, kWrite, kNow)), "-");
  EXPECT_EQ(text(writing, advance(writing, kFinish, kNow)), "-");
  EXPECT_EQ(advance(writing, kPublished, kNow).next.published, 2u);
  EXPECT_EQ(text(writing, advance(writing, kFail, kNow)), "rolled_back remove:3");
  EXPECT_EQ(text(writing, advance(writing, kWrite, kNow + 1)), "writing:4 part remove:3");
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
