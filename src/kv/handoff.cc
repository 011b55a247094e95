#include "kv/handoff.h"

namespace sluice::kv {
namespace {

Step refused(const Handoff& state) noexcept {
  return {.next = state};
}

Step accepted(const Handoff& state) noexcept {
  return {.next = state, .accepted = true};
}

// Ends the current generation without a commit.
Step ended(const Handoff& state, Phase phase) noexcept {
  Step step = accepted(state);
  step.next.phase = phase;
  step.next.writing_part = false;
  step.next.published = 0;
  step.remove = state.phase == Phase::kWriting || state.phase == Phase::kCommitting ||
                state.phase == Phase::kCommitted;
  step.remove_generation = state.generation;
  return step;
}

bool is_writing(const Handoff& state, std::uint32_t generation) noexcept {
  return state.phase == Phase::kWriting && state.generation == generation;
}

Step write(const Handoff& state, std::uint32_t generation) noexcept {
  if (state.phase == Phase::kReleased) return refused(state);
  if (is_writing(state, generation)) {
    if (state.writing_part) return refused(state);
    Step step = accepted(state);
    step.next.writing_part = true;
    return step;
  }
  // The first write of all, or the first of a later generation.
  const bool first = state.phase == Phase::kPrepared && generation >= state.generation;
  if (!first && generation <= state.generation) return refused(state);
  Step step = ended(state, Phase::kWriting);
  step.next.generation = generation;
  step.next.writing_part = true;
  return step;
}

Step published(const Handoff& state, std::uint32_t generation) noexcept {
  if (!is_writing(state, generation) || !state.writing_part) return refused(state);
  Step step = accepted(state);
  step.next.writing_part = false;
  ++step.next.published;
  return step;
}

Step finish(const Handoff& state, std::uint32_t generation) noexcept {
  if (!is_writing(state, generation) || state.writing_part || state.published == 0)
    return refused(state);
  Step step = accepted(state);
  step.next.phase = Phase::kCommitting;
  step.publish_commit = true;
  return step;
}

Step committed(const Handoff& state, std::uint32_t generation) noexcept {
  if (state.phase != Phase::kCommitting || state.generation != generation) return refused(state);
  Step step = accepted(state);
  step.next.phase = Phase::kCommitted;
  return step;
}

Step failed(const Handoff& state, std::uint32_t generation) noexcept {
  switch (state.phase) {
    case Phase::kPrepared:  // before its first part
      if (generation < state.generation) return refused(state);
      break;
    case Phase::kWriting:
    case Phase::kCommitting:
      if (generation != state.generation) return refused(state);
      break;
    case Phase::kCommitted:
    case Phase::kRolledBack:
    case Phase::kReleased:
      return refused(state);
  }
  Step step = ended(state, Phase::kRolledBack);
  step.next.generation = generation;
  return step;
}

Step released(const Handoff& state) noexcept {
  if (state.phase == Phase::kReleased) return refused(state);
  // What was committed is its reader's to remove.
  Step step = ended(state, Phase::kReleased);
  step.remove = step.remove && state.phase != Phase::kCommitted;
  return step;
}

}  // namespace

Step advance(const Handoff& state, Event event, std::uint32_t generation) noexcept {
  switch (event) {
    case Event::kWrite:
      return write(state, generation);
    case Event::kPublished:
      return published(state, generation);
    case Event::kFinish:
      return finish(state, generation);
    case Event::kCommitDone:
      return committed(state, generation);
    case Event::kFail:
      return failed(state, generation);
    case Event::kCancel:
      if (state.phase == Phase::kReleased) return refused(state);
      return ended(state, Phase::kReleased);
    case Event::kRelease:
      return released(state);
  }
  return refused(state);
}

std::string_view name(Phase phase) noexcept {
  switch (phase) {
    case Phase::kPrepared:
      return "prepared";
    case Phase::kWriting:
      return "writing";
    case Phase::kCommitting:
      return "committing";
    case Phase::kCommitted:
      return "committed";
    case Phase::kRolledBack:
      return "rolled_back";
    case Phase::kReleased:
      return "released";
  }
  return "unknown";
}

std::string_view name(Event event) noexcept {
  switch (event) {
    case Event::kWrite:
      return "write";
    case Event::kPublished:
      return "published";
    case Event::kFinish:
      return "finish";
    case Event::kCommitDone:
      return "committed";
    case Event::kFail:
      return "fail";
    case Event::kCancel:
      return "cancel";
    case Event::kRelease:
      return "release";
  }
  return "unknown";
}

}  // namespace sluice::kv
