// health.h: whether an instance is used, from what probes and requests say about it.
//
// Invariant: an instance leaves after `failures_to_evict` bad signs in a row and comes back after
//            `successes_to_readmit` good probes in a row; one good sign between bad ones starts the
//            count again. A new instance is used at once, unconfirmed, and leaves by the same rule.
// Pure: next state = step(state, event, thresholds). Any thread.
#pragma once

#include <cstdint>

namespace sluice::sched {

enum class HealthEvent : std::uint8_t {
  kProbeGood,
  kProbeBad,
  kRequestGood,    // an answer that is not the engine's own failure
  kRequestRefused  // nobody listened, or it closed before an answer
};

struct HealthThresholds {
  std::uint32_t failures_to_evict = 3;
  std::uint32_t successes_to_readmit = 2;
};

struct Health {
  bool usable = true;
  bool confirmed = false;  // a good sign has come since it was known, or since it came back
  std::uint32_t bad_in_a_row = 0;
  std::uint32_t good_in_a_row = 0;

  bool operator==(const Health&) const = default;
};

Health step(Health health, HealthEvent event, const HealthThresholds& thresholds) noexcept;

}  // namespace sluice::sched
