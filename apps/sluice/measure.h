// measure.h: how fast this arena is, path by path, against a plain copy. Used by `bench` and
// `doctor`.
//
// Puts a few objects under keys of its own and removes them. Medians of repeated calls inside a
// time budget.
// Threads: one owner; blocks for about `time_per_case` a figure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <sluice/client.h>

namespace sluice::cli {

struct Figure {
  std::string name;         // "put", "get verified", ...
  std::uint64_t bytes = 0;  // of one call; 0: a call that moves none
  std::uint64_t calls = 0;
  double us_p50 = 0;
  double us_p99 = 0;
  double bytes_per_second = 0;  // from the median; 0 when bytes is
};

struct MeasureOptions {
  std::chrono::milliseconds time_per_case{400};
  std::chrono::milliseconds timeout{5000};
};

// memcpy, put, put without checksums, get verified and copied, get without a copy, look-up.
Result<std::vector<Figure>> measure_paths(Client& client, std::uint64_t object_bytes,
                                          const MeasureOptions& options);

}  // namespace sluice::cli
