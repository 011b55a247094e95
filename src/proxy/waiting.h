// waiting.h: a coroutine that waits for something another part of the program will say.
//
// Threads: one io_context; open() from its thread only (others post).
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/clock.h"

namespace sluice::proxy {

std::chrono::steady_clock::time_point time_point_of(Instant instant) noexcept;

class Gate {
 public:
  explicit Gate(const boost::asio::any_io_executor& executor) : timer_(executor) {}
  void open();
  bool is_open() const noexcept { return open_; }
  // Until it is open; false when the deadline came first. One waiter.
  boost::asio::awaitable<bool> wait(Instant deadline);

 private:
  boost::asio::steady_timer timer_;
  bool open_ = false;
};

// A callback of a StopSource for the time of a scope.
template <class Source>
class StopScope {
 public:
  template <class Callback>
  StopScope(Source* source, Callback callback) : source_(source) {
    if (source_ != nullptr) number_ = source_->add(std::move(callback));
  }
  ~StopScope() {
    if (source_ != nullptr) source_->remove(number_);
  }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  Source* source_;
  std::uint64_t number_ = 0;
};

}  // namespace sluice::proxy
