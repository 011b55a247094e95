// affinity.h: what a stage saves by running where the KV of the stage before it lies.
//
// Pure but for the list of instances, which it reads once: the function that it makes looks nothing
// up, as it is called while the director chooses.
#pragma once

#include <string_view>

#include "proxy/director.h"
#include "sched/choice.h"

namespace sluice::proxy {

// Engines at another arena cannot take what lies in this one and would compute it again.
inline constexpr std::uint64_t kArenaSavesNs = 1'000'000'000;

// Prefers instances of `role` that named this arena when they were registered; nothing to prefer
// when `arena` is empty.
sched::Wish wish_near(const Director& director, std::size_t role, std::string_view arena);

}  // namespace sluice::proxy
