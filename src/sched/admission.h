// admission.h: one pool of equal instances: who runs where, who waits, who is refused.
//
// Invariant: an instance never has more than its limit running; at most `queue_max` wait; a request
//            waits only while nothing usable is free, and the first that came is the first that
//            goes. A request that cannot be expected to start before its deadline is refused at
//            once.
// Threads:   one owner (proxy::Director guards it). Time is passed in.
// Failure:   a Refusal with its cause and the seconds after which another try makes sense.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "sched/choice.h"

namespace sluice::sched {

using Ticket = std::uint64_t;

// What an operator says about a pool; the role is only its name here.
struct PoolPolicy {
  std::string role;
  std::uint32_t running_max = 256;  // per instance, unless the instance says otherwise
  std::uint32_t queue_max = 256;    // waiting, for the whole pool
};

enum class RefusalCause : std::uint8_t { kNoInstance, kUnhealthy, kQueueFull, kDeadline };
std::string_view name(RefusalCause cause) noexcept;  // "no_instance", ...

struct Refusal {
  RefusalCause cause = RefusalCause::kNoInstance;
  std::uint32_t retry_after_s = 1;
};
struct Granted {
  InstanceId instance = 0;
};
struct Queued {};
using Verdict = std::variant<Granted, Queued, Refusal>;

// A waiting request whose turn has come, or that cannot be served any more.
struct Called {
  Ticket ticket = 0;
  std::variant<Granted, Refusal> verdict;
};

class Pool {
 public:
  explicit Pool(PoolPolicy policy) : policy_(std::move(policy)) {}

  const PoolPolicy& policy() const noexcept { return policy_; }

  void add(InstanceId id, std::optional<std::uint32_t> running_max, bool usable);
  // The instance takes nothing more; what runs there goes on. Forgotten when its last has left.
  std::vector<Called> remove(InstanceId id, Instant now);
  std::vector<Called> set_usable(InstanceId id, bool usable, Instant now);

  // `ticket` names the request until it was granted, refused or cancelled.
  Verdict ask(Ticket ticket, Wish wish, Instant now, Instant deadline);
  bool cancel(Ticket ticket);  // true when it was waiting
  // One of the instance's requests has ended. `service_ns`: how long it took; nothing when that
  // says nothing about its pace (it failed).
  std::vector<Called> leave(InstanceId id, std::optional<std::uint64_t> service_ns, Instant now);

  std::size_t instances() const noexcept;  // not being removed
  std::size_t usable() const noexcept;
  std::size_t waiting() const noexcept { return queue_.size(); }
  std::uint32_t running(InstanceId id) const noexcept;
  std::uint32_t running() const noexcept;
  std::uint64_t service_ns(InstanceId id) const noexcept;

 private:
  struct Waiter {
    Ticket ticket = 0;
    Wish wish;
    Instant deadline = kFarFuture;
  };
  struct Member {
    Candidate candidate;
    bool removed = false;
  };

  Member* find(InstanceId id) noexcept;
  const Member* find(InstanceId id) const noexcept;
  std::optional<InstanceId> start(const Wish& wish, Instant now);
  std::uint64_t expected_wait_ns(std::size_t ahead) const noexcept;
  Refusal refuse(RefusalCause cause) const noexcept;
  std::vector<Called> call_waiting(Instant now);

  PoolPolicy policy_;
  std::vector<Member> members_;
  std::deque<Waiter> queue_;
};

}  // namespace sluice::sched
