// upstream_totals.h: what several Upstreams count together, for whoever shows it.
//
// Invariant: counts only grow.
// Threads:   written by the Upstreams' threads, read by any.
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::http {

struct UpstreamTotals {
  std::atomic<std::uint64_t> connects = 0;  // connections opened
  std::atomic<std::uint64_t> reuses = 0;    // requests on a connection that had idled
  std::atomic<std::uint64_t> retries = 0;   // of those, sent again: the engine had closed it
  std::atomic<std::uint64_t> failures = 0;  // requests without an answer
};

}  // namespace sluice::http
