#include "metrics/families.h"

#include <limits>
#include <sstream>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace sluice::metrics {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

struct Families::State {
  std::vector<MetricFamily> families;

  ClientMetric& series(std::string_view name, std::string_view help, MetricType type,
                       Labels labels) {
    MetricFamily* family = nullptr;
    for (MetricFamily& known : families) {
      if (known.name == name) family = &known;
    }
    if (family == nullptr) {
      families.push_back({std::string(name), std::string(help), type, {}});
      family = &families.back();
    }
    ClientMetric& metric = family->metric.emplace_back();
    for (auto& [label, value] : labels)
      metric.label.push_back({std::move(label), std::move(value)});
    return metric;
  }
};

Families::Families() : state_(std::make_unique<State>()) {}
Families::~Families() = default;

void Families::gauge(std::string_view name, std::string_view help, double value, Labels labels) {
  state_->series(name, help, MetricType::Gauge, std::move(labels)).gauge.value = value;
}

void Families::counter(std::string_view name, std::string_view help, std::uint64_t value,
                       Labels labels) {
  state_->series(name, help, MetricType::Counter, std::move(labels)).counter.value =
      static_cast<double>(value);
}

void Families::histogram(std::string_view name, std::string_view help, const HistogramValue& value,
                         Labels labels) {
  ClientMetric::Histogram& to =
      state_->series(name, help, MetricType::Histogram, std::move(labels)).histogram;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < value.counts.size(); ++i) {
    below += value.counts[i];
    const double bound =
        i < value.bounds.size() ? value.bounds[i] : std::numeric_limits<double>::infinity();
    to.bucket.push_back({below, bound});
  }
  to.sample_count = below;
  to.sample_sum = value.sum;
}

std::string Families::text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, state_->families);
  return std::move(out).str();
}

}  // namespace sluice::metrics
