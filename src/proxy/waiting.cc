#include "proxy/waiting.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace sluice::proxy {

// Both count CLOCK_MONOTONIC from boot.
std::chrono::steady_clock::time_point time_point_of(Instant instant) noexcept {
  constexpr Instant kMax = INT64_MAX / 2;  // room for a timer's own arithmetic
  return std::chrono::steady_clock::time_point(
      std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(instant, kMax))));
}

void Gate::open() {
  open_ = true;
  timer_.cancel();
}

boost::asio::awaitable<bool> Gate::wait(Instant deadline) {
  const auto until = time_point_of(deadline);
  while (!open_) {
    timer_.expires_at(until);
    boost::system::error_code error;
    co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, error));
    if (!error) break;
  }
  co_return open_;
}

}  // namespace sluice::proxy
