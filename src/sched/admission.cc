#include "sched/admission.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::sched {
namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint64_t kRetryAfterMaxSeconds = 60;
constexpr std::uint64_t kSmoothing = 8;  // a new time counts one eighth

}  // namespace

std::string_view name(RefusalCause cause) noexcept {
  switch (cause) {
    case RefusalCause::kNoInstance:
      return "no_instance";
    case RefusalCause::kUnhealthy:
      return "unhealthy";
    case RefusalCause::kQueueFull:
      return "queue_full";
    case RefusalCause::kDeadline:
      return "deadline";
  }
  return "unknown";
}

void Pool::add(InstanceId id, std::optional<std::uint32_t> running_max, bool usable) {
  CHECK(find(id) == nullptr);
  members_.push_back(
      {.candidate = {
           .id = id, .usable = usable, .running_max = running_max.value_or(policy_.running_max)}});
}

std::vector<Called> Pool::remove(InstanceId id, Instant now) {
  Member* member = find(id);
  if (member == nullptr) return {};
  member->removed = true;
  member->candidate.usable = false;
  if (member->candidate.running == 0) {
    std::erase_if(members_, [&](const Member& each) { return each.candidate.id == id; });
  }
  return call_waiting(now);
}

std::vector<Called> Pool::set_usable(InstanceId id, bool usable, Instant now) {
  Member* member = find(id);
  if (member == nullptr || member->removed) return {};
  member->candidate.usable = usable;
  return call_waiting(now);
}

Verdict Pool::ask(Ticket ticket, Wish wish, Instant now, Instant deadline) {
  if (instances() == 0) return refuse(RefusalCause::kNoInstance);
  if (usable() == 0) return refuse(RefusalCause::kUnhealthy);
  if (deadline <= now) return refuse(RefusalCause::kDeadline);
  if (queue_.empty()) {
    if (const auto instance = start(wish, now)) return Granted{*instance};
  }
  if (queue_.size() >= policy_.queue_max) return refuse(RefusalCause::kQueueFull);
  if (expected_wait_ns(queue_.size() + 1) > deadline - now) return refuse(RefusalCause::kDeadline);
  queue_.push_back({ticket, std::move(wish), deadline});
  return Queued{};
}

bool Pool::cancel(Ticket ticket) {
  return std::erase_if(queue_, [&](const Waiter& waiter) { return waiter.ticket == ticket; }) != 0;
}

std::vector<Called> Pool::leave(InstanceId id, std::optional<std::uint64_t> service_ns,
                                Instant now) {
  Member* member = find(id);
  CHECK(member != nullptr && member->candidate.running > 0);
  Candidate& candidate = member->candidate;
  --candidate.running;
  if (service_ns) {
    candidate.service_ns =
        candidate.service_ns == 0
            ? *service_ns
            : candidate.service_ns - candidate.service_ns / kSmoothing + *service_ns / kSmoothing;
  }
  if (member->removed && candidate.running == 0) {
    std::erase_if(members_, [&](const Member& each) { return each.candidate.id == id; });
  }
  return call_waiting(now);
}

std::size_t Pool::instances() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(members_, [](const Member& member) { return !member.removed; }));
}

std::size_t Pool::usable() const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(
      members_, [](const Member& member) { return member.candidate.usable; }));
}

std::uint32_t Pool::running(InstanceId id) const noexcept {
  const Member* member = find(id);
  return member == nullptr ? 0 : member->candidate.running;
}

std::uint32_t Pool::running() const noexcept {
  std::uint32_t sum = 0;
  for (const Member& member : members_) sum += member.candidate.running;
  return sum;
}

std::uint64_t Pool::service_ns(InstanceId id) const noexcept {
  const Member* member = find(id);
  return member == nullptr ? 0 : member->candidate.service_ns;
}

Pool::Member* Pool::find(InstanceId id) noexcept {
  const auto found = std::ranges::find_if(
      members_, [&](const Member& member) { return member.candidate.id == id; });
  return found == members_.end() ? nullptr : &*found;
}

const Pool::Member* Pool::find(InstanceId id) const noexcept {
  return const_cast<Pool*>(this)->find(id);
}

std::optional<InstanceId> Pool::start(const Wish& wish, Instant now) {
  std::vector<Candidate> candidates;
  candidates.reserve(members_.size());
  for (const Member& member : members_) candidates.push_back(member.candidate);
  const auto chosen = choose(candidates, wish);
  if (!chosen) return std::nullopt;
  Candidate& candidate = members_[*chosen].candidate;
  ++candidate.running;
  candidate.chosen_at = now;
  return candidate.id;
}

// Until the `ahead`-th waiting request starts, at the pace of the usable instances together.
std::uint64_t Pool::expected_wait_ns(std::size_t ahead) const noexcept {
  double starts_per_ns = 0;
  for (const Member& member : members_) {
    const Candidate& candidate = member.candidate;
    if (!candidate.usable) continue;
    if (candidate.service_ns == 0) return 0;  // unknown pace: no reason to refuse
    starts_per_ns +=
        static_cast<double>(candidate.running_max) / static_cast<double>(candidate.service_ns);
  }
  if (starts_per_ns <= 0) return 0;
  const double wait = static_cast<double>(ahead) / starts_per_ns;
  return wait >= 9e18 ? UINT64_MAX : static_cast<std::uint64_t>(wait);
}

Refusal Pool::refuse(RefusalCause cause) const noexcept {
  const std::uint64_t wait_ns = expected_wait_ns(queue_.size() + 1);
  const std::uint64_t seconds = wait_ns / kNsPerSecond + (wait_ns % kNsPerSecond != 0);
  return {cause,
          static_cast<std::uint32_t>(std::clamp<std::uint64_t>(seconds, 1, kRetryAfterMaxSeconds))};
}

std::vector<Called> Pool::call_waiting(Instant now) {
  std::vector<Called> called;
  while (!queue_.empty()) {
    Waiter& first = queue_.front();
    if (usable() == 0) {
      called.push_back({first.ticket, refuse(instances() == 0 ? RefusalCause::kNoInstance
                                                              : RefusalCause::kUnhealthy)});
    } else if (first.deadline <= now) {
      called.push_back({first.ticket, refuse(RefusalCause::kDeadline)});
    } else if (const auto instance = start(first.wish, now)) {
      called.push_back({first.ticket, Granted{*instance}});
    } else {
      break;
    }
    queue_.pop_front();
  }
  return called;
}

}  // namespace sluice::sched
