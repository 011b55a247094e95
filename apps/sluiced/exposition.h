// exposition.h: the arena's counters as Prometheus text (format 0.0.4).
//
// Pure: numbers in, text out; the caller decides when they are read. Names are documented in
//       docs/operating/metrics.md and
// never change meaning; a counter ends in _total.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sluice/client.h>

namespace sluice::daemon {

// What sluiced knows beside the arena.
struct ProcessSample {
  bool ready = false;
  bool draining = false;
  double touched_share = 0;
  double loop_age_seconds = 0;            // since the store loop's last turn
  std::uint64_t late_requests_total = 0;  // first seen after their deadline
  std::uint64_t http_requests_total = 0;
  std::uint64_t http_refused_total = 0;  // answers of 400 and above
  std::uint64_t log_lines_lost_total = 0;
};

// One family per line of docs/operating/metrics.md; clients are summed per label, so that restarts
// of an engine do not grow the number of series without bound.
std::string prometheus_text(const ArenaStats& stats, std::span<const ClientInfo> clients,
                            const ProcessSample& process);

}  // namespace sluice::daemon
