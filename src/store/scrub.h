// scrub.h: checks the bytes of every object that an earlier daemon left, and removes what is
// damaged.
//
// An ordinary client of the arena: it reads under leases and asks for removals, so the store loop
// never waits for it.
// Threads: one of its own, ended by the stop token. Failure: an object that goes away meanwhile is
//          skipped; without a
// daemon it ends early. Limits: pauses between objects, at most about half of one core.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string_view>

#include <sluice/client.h>

namespace sluice::store {

struct ScrubResult {
  std::uint64_t checked = 0;
  std::uint64_t removed = 0;
};

// `damaged` is told the key and the reason of each removed object.
ScrubResult scrub(
    Client& client, const std::stop_token& stop,
    const std::function<void(std::string_view key, std::string_view reason)>& damaged);

}  // namespace sluice::store
