// director.h: the instances, their health and who runs where, for all workers together.
//
// Invariant: a grant is given back once, by its Running. A waiter is called once, or cancelled.
// Threads:   any. One mutex over sched's pure parts, held for a choice and never while a callback
//            runs: a pool's limits mean something only when all workers count together.
// Owner:     owns the instances; a request shares the one that it runs on, which may be removed
//            meanwhile.
// Failure:   refusals are values (sched::Refusal).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "proxy/instance.h"
#include "proxy/roles.h"
#include "sched/admission.h"
#include "sched/health.h"
#include "sched/retry.h"

namespace sluice::proxy {

inline constexpr std::size_t kInstancesMax = 1024;

struct DirectorOptions {
  std::array<sched::PoolPolicy, kRoles.size()> pools;
  sched::HealthThresholds health;
  double retry_share = 0.2;
  double retry_burst = 32;
  // Called, on any thread, when an engine is taken out of use or back. May be empty.
  std::function<void(const Instance&, bool usable)> changed;
};

struct InstanceView {
  std::shared_ptr<const Instance> instance;
  bool usable = false;
  bool confirmed = false;  // usable, and a good sign has said so
  std::uint32_t running = 0;
  std::uint64_t service_ns = 0;
};

struct PoolView {
  std::size_t instances = 0, usable = 0, waiting = 0;
  std::uint32_t running = 0;
};

class Director;

// A request's place on an instance. Leaves it when it is destroyed.
class Running {
 public:
  Running() = default;
  Running(Director* director, std::shared_ptr<const Instance> instance, Instant began)
      : director_(director), instance_(std::move(instance)), began_(began) {}
  Running(Running&& other) noexcept { *this = std::move(other); }
  Running& operator=(Running&& other) noexcept;
  ~Running() { leave(); }

  const std::shared_ptr<const Instance>& instance() const noexcept { return instance_; }
  Instant began() const noexcept { return began_; }
  // It served its request: how long that took says something about its pace.
  void succeeded() noexcept { succeeded_ = true; }
  void leave() noexcept;

 private:
  Director* director_ = nullptr;
  std::shared_ptr<const Instance> instance_;  // shared: see Director
  Instant began_ = 0;
  bool succeeded_ = false;
};

using Place = std::variant<std::shared_ptr<const Instance>, sched::Refusal>;

class Director {
 public:
  explicit Director(DirectorOptions options);

  // An instance with this role and address is known already: its number, and `spec` counts from now
  // on.
  Result<sched::InstanceId> add(InstanceSpec spec);
  bool remove(sched::InstanceId id);
  std::optional<sched::InstanceId> find(std::size_t role, const http::Endpoint& endpoint) const;
  std::vector<InstanceView> list() const;
  PoolView pool(std::size_t role) const;
  bool known(std::size_t role) const;   // has an instance
  bool usable(std::size_t role) const;  // has a healthy one

  struct Asked {
    sched::Ticket ticket = 0;    // when it waits
    std::optional<Place> place;  // when it was decided at once
  };
  // `wake` is called on any thread, once, unless the ticket was cancelled before.
  Asked ask(std::size_t role, sched::Wish wish, Instant deadline, std::function<void(Place)> wake);
  bool cancel(std::size_t role, sched::Ticket ticket);

  void report(sched::InstanceId id, sched::HealthEvent event);
  void on_request();
  bool may_retry();

 private:
  friend class Running;
  struct Member {
    std::shared_ptr<const Instance> instance;
    sched::Health health;
    bool removed = false;
  };
  using Calls = std::vector<std::pair<std::function<void(Place)>, Place>>;

  void leave(const Instance& instance, std::optional<std::uint64_t> service_ns);
  Calls collect(const std::vector<sched::Called>& called);  // with the mutex held
  static void run(Calls calls);

  DirectorOptions options_;
  mutable std::mutex mutex_;
  std::vector<sched::Pool> pools_;  // by role
  std::map<sched::InstanceId, Member> members_;
  std::unordered_map<sched::Ticket, std::function<void(Place)>> waiting_;
  sched::RetryBudget budget_;
  sched::InstanceId next_id_ = 1;
  sched::Ticket next_ticket_ = 1;
};

}  // namespace sluice::proxy
