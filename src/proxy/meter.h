// meter.h: what one worker counts.
//
// Invariant: counts only grow. Names and meanings: docs/operating/proxy.md.
// Threads:   written by its worker, read by whoever serves /metrics: relaxed atomics, one Meter per
//            worker, so that nothing is shared on the way of a request.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include "http/upstream_totals.h"
#include "proxy/roles.h"

namespace sluice::proxy {

// Upper bounds in seconds; the last bucket has none.
inline constexpr std::array<double, 18> kSecondsBuckets = {
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300};

struct Histogram {
  std::array<std::atomic<std::uint64_t>, kSecondsBuckets.size() + 1> buckets{};
  std::atomic<std::uint64_t> sum_ns = 0;

  void observe_ns(std::uint64_t ns) noexcept;
};

using Count = std::atomic<std::uint64_t>;

enum class Fallback : std::uint8_t {
  kEncoderEmpty,     // no healthy encoder: prefill encodes by itself
  kEncodeFailed,     // the item was sent with its media instead
  kFeatureAbsent,    // the encoder answered, but the arena does not hold the feature
  kReferenceFailed,  // a stage failed on references and was tried with the media
  kPrefillEmpty,     // no healthy prefill: decode computes the prompt
  kPrefillFailed,
  kNoHandoff,  // prefill answered without one
  kCount
};
std::string_view name(Fallback fallback) noexcept;

enum class Cause : std::uint8_t {  // of a refusal
  kNoInstance,
  kUnhealthy,
  kQueueFull,
  kDeadline,
  kInvalid,  // 400 and its like
  kTooLarge,
  kUnauthorized,
  kStrict,  // on_failure = fail
  kCount
};
std::string_view name(Cause cause) noexcept;

struct RoleMeter {
  Histogram queue, service;
  Count requests = 0, failures = 0, retries = 0, bytes_sent = 0, bytes_received = 0;
  http::UpstreamTotals connections;
};

struct Meter {
  std::array<RoleMeter, kRoles.size()> roles;
  Histogram time_to_first_token, time_between_tokens, request;
  Count requests = 0, answered_2xx = 0, answered_4xx = 0, answered_5xx = 0;
  Count clients_gone = 0, streams_broken = 0, events = 0;
  Count media_items = 0, encodes = 0, encodes_skipped = 0, encodes_coalesced = 0;
  Count handoffs_committed = 0, handoffs_ended = 0, transfer_params_cut = 0;
  Count decodes_early = 0, decodes_early_lost = 0;  // asked before the commit; asked in vain
  std::array<Count, static_cast<std::size_t>(Fallback::kCount)> fallbacks{};
  std::array<Count, static_cast<std::size_t>(Cause::kCount)> refusals{};

  void fell_back(Fallback fallback) noexcept {
    fallbacks[static_cast<std::size_t>(fallback)].fetch_add(1, std::memory_order_relaxed);
  }
  void refused(Cause cause) noexcept {
    refusals[static_cast<std::size_t>(cause)].fetch_add(1, std::memory_order_relaxed);
  }
};

inline void add(Count& count, std::uint64_t n = 1) noexcept {
  count.fetch_add(n, std::memory_order_relaxed);
}

}  // namespace sluice::proxy
