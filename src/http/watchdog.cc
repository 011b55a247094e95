#include "http/watchdog.h"

#include <algorithm>

#include <boost/asio/steady_timer.hpp>

namespace sluice::http {

struct Watchdog::Timer {
  explicit Timer(boost::asio::io_context& io) : timer(io) {}

  boost::asio::steady_timer timer;
  Clock::time_point armed = Clock::time_point::max();  // max: nobody waits
  // Its death tells a handler that was queued already that the watchdog is gone. Shared with those
  // handlers only.
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
};

Watchdog::Watchdog(boost::asio::io_context& io) : timer_(std::make_unique<Timer>(io)) {}
Watchdog::~Watchdog() = default;

void Watchdog::expires_at(Entry& entry, Clock::time_point deadline) {
  entry.deadline_ = deadline;
  if (!entry.is_linked()) entries_.push_back(entry);
  if (deadline < timer_->armed) arm(deadline);
}

void Watchdog::arm(Clock::time_point when) {
  timer_->armed = when;
  timer_->timer.expires_at(when);
  timer_->timer.async_wait(
      [this, alive = std::weak_ptr<bool>(timer_->alive)](const boost::system::error_code& error) {
        if (error || alive.expired()) return;
        look();
      });
}

void Watchdog::look() {
  timer_->armed = Clock::time_point::max();
  const auto now = Clock::now();
  auto earliest = Clock::time_point::max();
  // on_deadline() may destroy its entry, others too; so the late ones move to a list of their own.
  decltype(entries_) late;
  for (auto next = entries_.begin(); next != entries_.end();) {
    Entry& entry = *next++;
    if (entry.deadline_ <= now) {
      entry.unlink();
      late.push_back(entry);
    } else {
      earliest = std::min(earliest, entry.deadline_);
    }
  }
  const std::weak_ptr<bool> alive = timer_->alive;
  while (!late.empty()) {
    Entry& entry = late.front();
    entry.unlink();
    entry.deadline_ = Clock::time_point::max();
    entry.on_deadline();
    if (alive.expired()) return;  // `late` lets the others go
  }
  const auto wanted = std::max(earliest, now + kGranularity);
  if (earliest != Clock::time_point::max() && wanted < timer_->armed) arm(wanted);
}

}  // namespace sluice::http
