#include "sched/health.h"

namespace sluice::sched {

Health step(Health health, HealthEvent event, const HealthThresholds& thresholds) noexcept {
  switch (event) {
    case HealthEvent::kProbeGood:
      health.bad_in_a_row = 0;
      if (health.usable) {
        health.confirmed = true;
        return health;
      }
      if (++health.good_in_a_row >= thresholds.successes_to_readmit)
        return Health{.confirmed = true};
      return health;
    case HealthEvent::kRequestGood:
      // An evicted instance may still finish what it has; only probes bring it back.
      if (health.usable) {
        health.bad_in_a_row = 0;
        health.confirmed = true;
      }
      return health;
    case HealthEvent::kProbeBad:
    case HealthEvent::kRequestRefused:
      health.good_in_a_row = 0;
      if (!health.usable) return health;
      if (++health.bad_in_a_row >= thresholds.failures_to_evict) {
        health.usable = false;
        health.confirmed = false;
      }
      return health;
  }
  return health;
}

}  // namespace sluice::sched
