// quantiles.h: cumulative buckets of a histogram, what was added between two looks, and quantiles.
//
// Invariant: bounds ascend strictly and end with infinity; counts never fall from one to the next.
//            Or it is empty: nothing is known.
// Pure.
#pragma once

#include <optional>
#include <vector>

namespace sluice::metrics {

struct Buckets {
  std::vector<double> bounds;
  std::vector<double> counts;  // of observations up to the bound

  double total() const noexcept { return counts.empty() ? 0 : counts.back(); }
};

// What `later` has more than `earlier`. Other bounds, or fewer observations: another process counts
// from zero, so `later` as it is.
Buckets difference(const Buckets& later, const Buckets& earlier);

// Other bounds than the ones that are there already cannot be added, and are left out.
void add(Buckets& to, const Buckets& more);

// The value below which this share (0 to 1) of the observations lies, straight between bounds; of
// those above the last finite bound that bound. Nothing without observations.
std::optional<double> quantile(const Buckets& buckets, double share);

}  // namespace sluice::metrics
