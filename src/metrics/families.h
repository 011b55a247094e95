// families.h: gauges and counters collected at the moment of a scrape, as Prometheus text (format
// 0.0.4).
//
// Invariant: a family is declared once, whatever the number of its series; label values are
//            escaped.
// Threads:   one owner; made for one scrape and dropped.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::metrics {

using Labels = std::vector<std::pair<std::string, std::string>>;

// Counts per bucket, not accumulated: one more than there are bounds, the last without one.
struct HistogramValue {
  std::vector<double> bounds;  // ascending
  std::vector<std::uint64_t> counts;
  double sum = 0;
};

class Families {
 public:
  Families();
  ~Families();
  Families(const Families&) = delete;
  Families& operator=(const Families&) = delete;

  // `help` counts at a family's first series.
  void gauge(std::string_view name, std::string_view help, double value, Labels labels = {});
  void counter(std::string_view name, std::string_view help, std::uint64_t value,
               Labels labels = {});
  void histogram(std::string_view name, std::string_view help, const HistogramValue& value,
                 Labels labels = {});

  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::metrics
