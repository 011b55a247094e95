// scheduling.h: when the kernel runs a thread that has little to do, on processors that others keep
// busy.
//
// The kernel gives every thread its share, and picks first whose slice ends first: on a machine full
// of engines a thread with the usual slice of milliseconds may be picked long after it was woken.
// With a short slice it is picked soon; its share stays what it was.
//
// Threads: the calling one only. Needs no privilege.
#pragma once

#include <cstdint>
#include <optional>

namespace sluice {

struct Scheduling {
  std::uint32_t policy = 0;
  std::int32_t niceness = 0;
  std::uint64_t slice_ns = 0;
};

std::optional<Scheduling> scheduling_of_this_thread() noexcept;

// Slices of 0.1 ms, the shortest there are; policy and niceness stay as they are. Returns whether
// the kernel gives them: Linux 6.12 or later does, to threads of the usual policy.
bool ask_for_short_slices() noexcept;

}  // namespace sluice
