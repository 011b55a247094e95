// choice.h: which instance of a pool a request goes to.
//
// Least expected wait: (requests running there + 1) x what one takes there. An instance that holds
// the request's feature or KV counts as if its wait were shorter by what fetching it would cost.
// Among equal waits the one that was chosen longest ago is taken, so that idle instances take
// turns. Pure; any thread. Fails by answering nothing: no candidate can take the request.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"

namespace sluice::sched {

using InstanceId = std::uint64_t;

struct Candidate {
  InstanceId id = 0;
  bool usable = true;         // healthy and not being removed
  std::uint32_t running = 0;  // requests that it has now
  std::uint32_t running_max = 1;
  std::uint64_t service_ns = 0;  // what one request takes, smoothed; 0: not known yet
  Instant chosen_at = 0;
};

struct Wish {
  std::vector<InstanceId> avoid;  // where this request failed: only if nothing else is left
  // Nanoseconds that choosing this instance saves: where the feature or the KV lies, or a fast link
  // to the prefill that was chosen. Empty: none.
  std::function<std::uint64_t(InstanceId)> saves_ns;
};

// Index into `candidates`.
std::optional<std::size_t> choose(std::span<const Candidate> candidates, const Wish& wish);

}  // namespace sluice::sched
