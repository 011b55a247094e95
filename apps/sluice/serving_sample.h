// serving_sample.h: one look at the serving path: what its proxy and its engines say right now.
//
// Failure: a part that is away, refuses or talks nonsense is an error in its place; the rest is
//          there.
// Limits:  64 engines, the first that the proxy or the topology names.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/error.h>

#include "base/clock.h"
#include "metrics/reading.h"
#include "serving_place.h"

namespace sluice::cli {

inline constexpr std::size_t kEnginesShownMax = 64;

// An engine as the proxy lists it.
struct ListedInstance {
  std::uint64_t id = 0;
  std::string role, address, arena;
  bool healthy = false;   // in use
  bool answered = false;  // and has said that it is healthy
  std::uint32_t running = 0;
  double service_ms = 0;
};

// The JSON of GET /v1/instances.
Result<std::vector<ListedInstance>> read_instances(std::string_view json);

struct ServingSample {
  Instant time = 0;
  Result<metrics::Reading> proxy = fail(Code::kNotFound, "no proxy is named");
  Result<std::vector<ListedInstance>> listed = fail(Code::kNotFound, "no proxy is named");
  std::map<std::string, Result<metrics::Reading>> engines;  // by address
};

ServingSample look(const ServingPlace& place, std::chrono::milliseconds timeout);

}  // namespace sluice::cli
