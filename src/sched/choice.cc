#include "sched/choice.h"

#include <algorithm>
#include <tuple>

namespace sluice::sched {
namespace {

// Wait that the request can expect, less what the place saves; saturates at both ends.
std::uint64_t expected_wait_ns(const Candidate& candidate, const Wish& wish) {
  // An instance whose pace is unknown counts as quick, so that it is tried.
  const std::uint64_t each = std::max<std::uint64_t>(candidate.service_ns, 1);
  std::uint64_t wait = 0;
  if (__builtin_mul_overflow(each, std::uint64_t{candidate.running} + 1, &wait)) wait = UINT64_MAX;
  const std::uint64_t saved = wish.saves_ns ? wish.saves_ns(candidate.id) : 0;
  return wait > saved ? wait - saved : 0;
}

bool avoided(const Candidate& candidate, const Wish& wish) {
  return std::ranges::find(wish.avoid, candidate.id) != wish.avoid.end();
}

}  // namespace

std::optional<std::size_t> choose(std::span<const Candidate> candidates, const Wish& wish) {
  using Rank = std::tuple<bool, std::uint64_t, std::uint32_t, Instant>;
  std::optional<std::size_t> best;
  Rank best_rank;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    if (!candidate.usable || candidate.running >= candidate.running_max) continue;
    const Rank rank{avoided(candidate, wish), expected_wait_ns(candidate, wish), candidate.running,
                    candidate.chosen_at};
    if (!best || rank < best_rank) {
      best = i;
      best_rank = rank;
    }
  }
  return best;
}

}  // namespace sluice::sched
