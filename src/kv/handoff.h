// handoff.h: the life of one hand-off on the side that writes it, one rank, as a pure state machine.
//
//   prepared --write--> writing --finish--> committing --committed--> committed --release--> released
//                         |  fail, cancel        |  fail, cancel
//                         v                      v
//                      rolled back <-------------+        (a write of a later generation begins anew)
//
// A generation is one attempt of the engine at the prompt: a preemption throws away what was
// computed, and the next attempt writes under a number one higher.
//
// Invariant: a commit is asked for at most once in a generation, only after every part that was
//            begun in it was published, and never after a fail or cancel of it. What is left in the
//            arena when a generation ends without a commit is asked to be removed, exactly once.
// Threads:   a value; one owner.
// Failure:   none: an event that does not belong to the state is refused in the step and changes
//            nothing.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::kv {

enum class Phase : std::uint8_t {
  kPrepared,
  kWriting,
  kCommitting,
  kCommitted,
  kRolledBack,
  kReleased
};
std::string_view name(Phase phase) noexcept;

enum class Event : std::uint8_t {
  kWrite,       // a part is about to be reserved and written
  kPublished,   // that part is in the arena
  kFinish,      // no part will follow in this generation
  kCommitDone,  // the commit is in the arena
  kFail,        // a part or the commit could not be stored
  kCancel,      // the request is gone: nobody will read this
  kRelease      // whoever reads it is done, or it is theirs to remove
};
std::string_view name(Event event) noexcept;

struct Handoff {
  Phase phase = Phase::kPrepared;
  std::uint32_t generation = 0;
  std::uint32_t published = 0;  // parts of this generation in the arena
  bool writing_part = false;    // between kWrite and kPublished

  bool operator==(const Handoff&) const = default;
};

struct Step {
  Handoff next;
  bool accepted = false;        // false: the event is stale or does not belong here
  bool publish_commit = false;  // with next.published parts
  bool remove = false;          // everything of `remove_generation`
  std::uint32_t remove_generation = 0;
};

// `generation`: of what the event speaks. kCancel and kRelease speak of the whole hand-off.
Step advance(const Handoff& state, Event event, std::uint32_t generation) noexcept;

}  // namespace sluice::kv
