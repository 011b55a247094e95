// exposition.h: what the workers counted, as Prometheus text. Pure; names in
// docs/operating/proxy.md.
#pragma once

#include <array>
#include <span>
#include <string>

#include "proxy/director.h"
#include "proxy/feature_directory.h"
#include "proxy/meter.h"

namespace sluice::proxy {

struct ProxySample {
  bool ready = false;
  bool draining = false;
  std::size_t connections = 0;
  std::size_t encodes_in_flight = 0;
  std::uint64_t log_lines_lost = 0;
  std::array<PoolView, kRoles.size()> pools;
  FeatureDirectory::Counts arena;
  bool has_arena = false;
};

std::string metrics_text(std::span<const Meter* const> meters, const ProxySample& sample);

}  // namespace sluice::proxy
