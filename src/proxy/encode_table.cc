#include "proxy/encode_table.h"

namespace sluice::proxy {

EncodeTable::Place EncodeTable::join(const std::string& key, Waiter waiter) {
  const std::scoped_lock lock(mutex_);
  auto [entry, first] = jobs_.try_emplace(key);
  const std::uint64_t number = next_++;
  if (first) entry->second.number = number;
  entry->second.waiters.emplace(number, std::move(waiter));
  return {number, entry->second.number, first};
}

void EncodeTable::set_cancel(const std::string& key, std::uint64_t job,
                             std::function<void()> cancel) {
  {
    const std::scoped_lock lock(mutex_);
    const auto found = jobs_.find(key);
    if (found != jobs_.end() && found->second.number == job) {
      found->second.cancel = std::move(cancel);
      return;
    }
  }
  cancel();
}

void EncodeTable::leave(const std::string& key, std::uint64_t number) {
  std::function<void()> cancel;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = jobs_.find(key);
    if (found == jobs_.end() || found->second.waiters.erase(number) == 0) return;
    if (!found->second.waiters.empty()) return;
    // A later one with the same key starts afresh; the cancelled encode finishes into nothing.
    cancel = std::move(found->second.cancel);
    jobs_.erase(found);
  }
  if (cancel) cancel();
}

void EncodeTable::finish(const std::string& key, std::uint64_t job, EncodeResult result) {
  std::map<std::uint64_t, Waiter> waiters;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = jobs_.find(key);
    if (found == jobs_.end() || found->second.number != job) return;
    waiters = std::move(found->second.waiters);
    jobs_.erase(found);
  }
  const auto shared = std::make_shared<const EncodeResult>(std::move(result));
  for (const auto& [number, waiter] : waiters) waiter(shared);
}

std::size_t EncodeTable::size() const {
  const std::scoped_lock lock(mutex_);
  return jobs_.size();
}

}  // namespace sluice::proxy
