#include "proxy/meter.h"

#include <algorithm>

namespace sluice::proxy {

void Histogram::observe_ns(std::uint64_t ns) noexcept {
  const double seconds = static_cast<double>(ns) / 1e9;
  const auto bucket = std::ranges::lower_bound(kSecondsBuckets, seconds);
  add(buckets[static_cast<std::size_t>(bucket - kSecondsBuckets.begin())]);
  add(sum_ns, ns);
}

std::string_view name(Fallback fallback) noexcept {
  switch (fallback) {
    case Fallback::kEncoderEmpty:
      return "encoder_empty";
    case Fallback::kEncodeFailed:
      return "encode_failed";
    case Fallback::kFeatureAbsent:
      return "feature_absent";
    case Fallback::kReferenceFailed:
      return "reference_failed";
    case Fallback::kPrefillEmpty:
      return "prefill_empty";
    case Fallback::kPrefillFailed:
      return "prefill_failed";
    case Fallback::kNoHandoff:
      return "no_handoff";
    case Fallback::kCount:
      break;
  }
  return "unknown";
}

std::string_view name(Cause cause) noexcept {
  switch (cause) {
    case Cause::kNoInstance:
      return "no_instance";
    case Cause::kUnhealthy:
      return "unhealthy";
    case Cause::kQueueFull:
      return "queue_full";
    case Cause::kDeadline:
      return "deadline";
    case Cause::kInvalid:
      return "invalid";
    case Cause::kTooLarge:
      return "too_large";
    case Cause::kUnauthorized:
      return "unauthorized";
    case Cause::kStrict:
      return "strict";
    case Cause::kCount:
      break;
  }
  return "unknown";
}

}  // namespace sluice::proxy
