#include "http/stop_source.h"

#include <algorithm>

namespace sluice::http {

void StopSource::Callbacks::remove(std::uint64_t number) noexcept {
  std::erase_if(list, [number](const auto& entry) { return entry.first == number; });
}

void StopSource::stop() {
  stopped_ = true;
  // A callback may remove others, which then do not run, and may end the source.
  const auto callbacks = callbacks_;
  while (callbacks && !callbacks->list.empty()) {
    const auto callback = std::move(callbacks->list.back().second);
    callbacks->list.pop_back();
    callback();
  }
}

std::uint64_t StopSource::add(std::function<void()> callback) {
  if (stopped_) {
    callback();
    return 0;
  }
  if (!callbacks_) callbacks_ = std::make_shared<Callbacks>();
  const std::uint64_t number = callbacks_->next++;
  callbacks_->list.emplace_back(number, std::move(callback));
  return number;
}

void StopSource::remove(std::uint64_t number) noexcept {
  if (callbacks_) callbacks_->remove(number);
}

StopGuard::StopGuard(StopSource& source, std::function<void()> callback)
    : number_(source.add(std::move(callback))) {
  if (number_ != 0) callbacks_ = source.callbacks_;
}

StopGuard& StopGuard::operator=(StopGuard&& other) noexcept {
  if (this != &other) {
    release();
    callbacks_ = std::move(other.callbacks_);
    number_ = std::exchange(other.number_, 0);
  }
  return *this;
}

void StopGuard::release() noexcept {
  if (const auto callbacks = callbacks_.lock()) callbacks->remove(number_);
  callbacks_.reset();
}

}  // namespace sluice::http
