// link.h: one connection to an engine and what was read from it.
//
// Invariant: after stop() or a deadline every operation that waits, and every later one, answers
//            why.
// Threads:   its io_context's only.
// Owner:     the pool while idle, else the call that uses it.
// Failure:   kUnavailable when stopped, refused or closed by the engine; kTimedOut at the deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <sluice/error.h>

#include "http/gather.h"
#include "http/input_buffer.h"
#include "http/watchdog.h"

namespace sluice::http {

class Link final : private Watchdog::Entry {
 public:
  Link(boost::asio::io_context& io, Watchdog& watchdog, std::size_t buffer_bytes)
      : watchdog_(watchdog), socket_(io), buffer_bytes_(buffer_bytes) {}

  boost::asio::awaitable<Status> connect(const boost::asio::ip::tcp::endpoint& endpoint);
  boost::asio::awaitable<Status> send(Gather& gather);
  // Reads what has arrived into buffer(). `got` is 0 at the engine's end.
  boost::asio::awaitable<Status> fill(std::size_t& got);
  // Straight to its place.
  boost::asio::awaitable<Status> read_to(char* place, std::size_t bytes, std::size_t& got);

  void deadline(Clock::time_point when) { watchdog_.expires_at(*this, when); }
  void stop() noexcept;

  // While idle: calls `expired` after `wait`. It may destroy the link.
  void rest(Clock::duration wait, std::function<void()> expired);
  // Takes it up again: false when the engine has closed it or has said something unasked.
  bool wake() noexcept;

  InputBuffer& buffer() noexcept { return buffer_; }
  bool stopped() const noexcept { return reason_ != Reason::kNone; }

 private:
  enum class Reason : std::uint8_t { kNone, kStopped, kDeadline };

  void on_deadline() override;
  void abort(Reason reason) noexcept;
  void close() noexcept;
  std::unexpected<Error> failed(std::string_view doing,
                                const boost::system::error_code& error) const;

  Watchdog& watchdog_;
  boost::asio::ip::tcp::socket socket_;
  InputBuffer buffer_;
  std::size_t buffer_bytes_;
  bool filled_ = false;  // the last read took all the room there was
  Reason reason_ = Reason::kNone;
  std::function<void()> expired_;  // set while idle
};

}  // namespace sluice::http
