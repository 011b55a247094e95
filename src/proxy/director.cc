#include "proxy/director.h"

#include <fmt/format.h>

#include "base/check.h"

namespace sluice::proxy {

Running& Running::operator=(Running&& other) noexcept {
  if (this != &other) {
    leave();
    director_ = std::exchange(other.director_, nullptr);
    instance_ = std::move(other.instance_);
    began_ = other.began_;
    succeeded_ = other.succeeded_;
  }
  return *this;
}

void Running::leave() noexcept {
  if (director_ == nullptr) return;
  std::optional<std::uint64_t> service_ns;
  if (succeeded_) service_ns = std::max<std::uint64_t>(now() - began_, 1);
  std::exchange(director_, nullptr)->leave(*instance_, service_ns);
  instance_.reset();
}

Director::Director(DirectorOptions options)
    : options_(std::move(options)), budget_(options_.retry_share, options_.retry_burst) {
  for (const sched::PoolPolicy& policy : options_.pools) pools_.emplace_back(policy);
}

Result<sched::InstanceId> Director::add(InstanceSpec spec) {
  const std::scoped_lock lock(mutex_);
  for (auto& [id, member] : members_) {
    const InstanceSpec& known = member.instance->spec;
    if (member.removed || known.role != spec.role ||
        known.endpoint.text() != spec.endpoint.text()) {
      continue;
    }
    member.instance = std::make_shared<const Instance>(Instance{id, std::move(spec)});
    return id;
  }
  if (members_.size() == kInstancesMax) {
    return fail(Code::kLimit, fmt::format("more than {} instances", kInstancesMax));
  }
  const sched::InstanceId id = next_id_++;
  pools_[spec.role].add(id, spec.running_max, true);
  members_[id].instance = std::make_shared<const Instance>(Instance{id, std::move(spec)});
  return id;
}

bool Director::remove(sched::InstanceId id) {
  Calls calls;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = members_.find(id);
    if (found == members_.end() || found->second.removed) return false;
    const std::size_t role = found->second.instance->spec.role;
    calls = collect(pools_[role].remove(id, now()));
    found->second.removed = true;
    if (pools_[role].running(id) == 0) members_.erase(found);
  }
  run(std::move(calls));
  return true;
}

std::optional<sched::InstanceId> Director::find(std::size_t role,
                                                const http::Endpoint& endpoint) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, member] : members_) {
    const InstanceSpec& known = member.instance->spec;
    if (!member.removed && known.role == role && known.endpoint.text() == endpoint.text())
      return id;
  }
  return std::nullopt;
}

std::vector<InstanceView> Director::list() const {
  const std::scoped_lock lock(mutex_);
  std::vector<InstanceView> out;
  for (const auto& [id, member] : members_) {
    if (member.removed) continue;
    const sched::Pool& pool = pools_[member.instance->spec.role];
    out.push_back({.instance = member.instance,
                   .usable = member.health.usable,
                   .confirmed = member.health.usable && member.health.confirmed,
                   .running = pool.running(id),
                   .service_ns = pool.service_ns(id)});
  }
  return out;
}

PoolView Director::pool(std::size_t role) const {
  const std::scoped_lock lock(mutex_);
  const sched::Pool& pool = pools_[role];
  return {pool.instances(), pool.usable(), pool.waiting(), pool.running()};
}

bool Director::known(std::size_t role) const {
  const std::scoped_lock lock(mutex_);
  return pools_[role].instances() != 0;
}

bool Director::usable(std::size_t role) const {
  const std::scoped_lock lock(mutex_);
  return pools_[role].usable() != 0;
}

Director::Asked Director::ask(std::size_t role, sched::Wish wish, Instant deadline,
                              std::function<void(Place)> wake) {
  const std::scoped_lock lock(mutex_);
  const sched::Ticket ticket = next_ticket_++;
  const sched::Verdict verdict = pools_[role].ask(ticket, std::move(wish), now(), deadline);
  if (const auto* granted = std::get_if<sched::Granted>(&verdict)) {
    return {0, Place(members_.at(granted->instance).instance)};
  }
  if (const auto* refusal = std::get_if<sched::Refusal>(&verdict)) return {0, Place(*refusal)};
  waiting_.emplace(ticket, std::move(wake));
  return {ticket, std::nullopt};
}

bool Director::cancel(std::size_t role, sched::Ticket ticket) {
  const std::scoped_lock lock(mutex_);
  if (!pools_[role].cancel(ticket)) return false;
  waiting_.erase(ticket);
  return true;
}

void Director::report(sched::InstanceId id, sched::HealthEvent event) {
  Calls calls;
  std::shared_ptr<const Instance> changed;
  bool usable = false;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = members_.find(id);
    if (found == members_.end() || found->second.removed) return;
    Member& member = found->second;
    const bool before = member.health.usable;
    member.health = sched::step(member.health, event, options_.health);
    usable = member.health.usable;
    if (usable == before) return;
    changed = member.instance;
    calls = collect(pools_[changed->spec.role].set_usable(id, usable, now()));
  }
  run(std::move(calls));
  if (options_.changed) options_.changed(*changed, usable);
}

void Director::on_request() {
  const std::scoped_lock lock(mutex_);
  budget_.on_request();
}

bool Director::may_retry() {
  const std::scoped_lock lock(mutex_);
  return budget_.take();
}

void Director::leave(const Instance& instance, std::optional<std::uint64_t> service_ns) {
  Calls calls;
  {
    const std::scoped_lock lock(mutex_);
    sched::Pool& pool = pools_[instance.spec.role];
    calls = collect(pool.leave(instance.id, service_ns, now()));
    const auto found = members_.find(instance.id);
    if (found != members_.end() && found->second.removed && pool.running(instance.id) == 0) {
      members_.erase(found);
    }
  }
  run(std::move(calls));
}

Director::Calls Director::collect(const std::vector<sched::Called>& called) {
  Calls calls;
  for (const sched::Called& each : called) {
    const auto found = waiting_.find(each.ticket);
    CHECK(found != waiting_.end());
    Place place = sched::Refusal{};
    if (const auto* granted = std::get_if<sched::Granted>(&each.verdict)) {
      place = members_.at(granted->instance).instance;
    } else {
      place = std::get<sched::Refusal>(each.verdict);
    }
    calls.emplace_back(std::move(found->second), std::move(place));
    waiting_.erase(found);
  }
  return calls;
}

void Director::run(Calls calls) {
  for (auto& [wake, place] : calls) wake(std::move(place));
}

}  // namespace sluice::proxy
