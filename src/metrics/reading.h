// reading.h: Prometheus text (format 0.0.4) as another process served it, taken apart.
//
// Strict: a line that is not whole, a name, label or number that the format does not know, a text
// that ends inside a line: all of it is refused, for half of a page means nothing.
// Pure; bytes come from outside and are never trusted.
// Failure: kInvalidArgument with the line's number, kLimit beyond the bounds.
// Limits:  8 MiB of text, 100,000 samples, 64 labels of one sample, 1 KiB of a name or label value.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/error.h>

#include "metrics/families.h"
#include "metrics/quantiles.h"

namespace sluice::metrics {

inline constexpr std::size_t kReadBytesMax = 8u << 20;
inline constexpr std::size_t kReadSamplesMax = 100'000;
inline constexpr std::size_t kReadLabelsMax = 64;
inline constexpr std::size_t kReadWordBytesMax = 1024;

struct Sample {
  std::string name;
  Labels labels;     // in the order of the text, each name once
  double value = 0;  // may be infinite, or not a number

  std::string_view label(std::string_view name) const noexcept;  // empty: it has none
};

// Which samples of a family count. Empty: all.
using Match = std::function<bool(const Sample&)>;

class Reading {
 public:
  static Result<Reading> parse(std::string_view text);

  const std::vector<Sample>& samples() const noexcept { return samples_; }
  // The sum over the samples with this name; 0 when there is none. What is not a finite number does
  // not count.
  double sum(std::string_view name, const Match& match = {}) const;
  bool has(std::string_view name) const noexcept;
  // The histogram of `name`_bucket, summed over its other labels. Buckets that do not ascend, or
  // that have no end, make it empty.
  Buckets histogram(std::string_view name, const Match& match = {}) const;

 private:
  std::vector<Sample> samples_;
};

}  // namespace sluice::metrics
