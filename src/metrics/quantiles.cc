#include "metrics/quantiles.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace sluice::metrics {

Buckets difference(const Buckets& later, const Buckets& earlier) {
  if (later.bounds != earlier.bounds) return later;
  Buckets out = later;
  double before = 0;
  for (std::size_t i = 0; i < out.counts.size(); ++i) {
    out.counts[i] -= earlier.counts[i];
    if (out.counts[i] < before) return later;
    before = out.counts[i];
  }
  return out;
}

void add(Buckets& to, const Buckets& more) {
  if (to.bounds.empty()) {
    to = more;
    return;
  }
  if (to.bounds != more.bounds) return;
  for (std::size_t i = 0; i < to.counts.size(); ++i) to.counts[i] += more.counts[i];
}

std::optional<double> quantile(const Buckets& buckets, double share) {
  if (buckets.total() <= 0) return std::nullopt;
  const double wanted = std::clamp(share, 0.0, 1.0) * buckets.total();
  const auto found = std::ranges::lower_bound(buckets.counts, wanted);
  const auto at = static_cast<std::size_t>(found - buckets.counts.begin());
  if (!std::isfinite(buckets.bounds[at])) {
    return at == 0 ? std::nullopt : std::optional(buckets.bounds[at - 1]);
  }
  const double from = at == 0 ? std::min(0.0, buckets.bounds[0]) : buckets.bounds[at - 1];
  const double below = at == 0 ? 0 : buckets.counts[at - 1];
  const double inside = buckets.counts[at] - below;
  const double part = inside > 0 ? (wanted - below) / inside : 1;
  return from + (buckets.bounds[at] - from) * part;
}

}  // namespace sluice::metrics
